"""onnxruntime's operators on strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.ml.models import S, agrees, single, texts
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.values.tokens import murmur_hash

PLAIN = {"mark": 0, "mincharnum": 1, "pad_value": "#"}


def of_texts(op_type: str, shape: list[str | int], output: int = S, **attributes: Any) -> onnx.ModelProto:
    proto = single(op_type, {"x": (shape, object)}, [output], domain="com.microsoft", **attributes)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return proto


@pytest.mark.parametrize(
    "attributes",
    [
        {"tokenexp": "[a-zA-Z0-9_]+"},
        {"tokenexp": r"\w+", "mark": 1},
        {"tokenexp": "a|ab|[^ ]b", "pad_value": ""},
        {"tokenexp": "[a-z]*", "mincharnum": 2},
        {"tokenexp": "."},
        {"separators": [""], "mark": 1},
        {"separators": [" ", "[.,]"]},
        {"separators": [" +|,"], "mincharnum": 3, "mark": 1},
    ],
    ids=str,
)
def test_texts_become_tokens(attributes: dict[str, Any]) -> None:
    x = texts("The quick, brown fox.", "", "abab é ab", "12_3 a")
    proto = of_texts("Tokenizer", ["n"], **PLAIN | attributes)
    agrees(proto, {"x": x}, {"x": x[:1]}, {"x": texts("")})
    agrees(of_texts("Tokenizer", ["n", 2], **PLAIN | attributes), {"x": x.reshape(2, 2)})


def test_tokens_are_counted_as_text_pipelines_count_them() -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["x"], ["l"], case_change_action="LOWER", locale="C.UTF-8"),
        helper.make_node(
            "Tokenizer", ["l"], ["t"], domain="com.microsoft", tokenexp="[a-zA-Z0-9_]+", **PLAIN
        ),
        helper.make_node(
            "TfIdfVectorizer", ["t"], ["y"], mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=0,
            ngram_counts=[0, 3], ngram_indexes=[0, 1, 2, 3, 4],
            pool_strings=["a", "fox", "quick", "a", "fox", "quick", "fox"],
        ),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    agrees(proto, {"x": texts("A quick FOX, a fox!")}, {"x": texts("quick fox", "", "fox-fox")})


@pytest.mark.parametrize(("positive", "dtype"), [(1, TensorProto.UINT32), (0, TensorProto.INT32)])
def test_texts_are_hashed(positive: int, dtype: int) -> None:
    x = texts("", "a", "fox", "longer than a block", "été").reshape(1, 5)
    agrees(of_texts("MurmurHash3", ["n", 5], dtype, positive=positive, seed=7), {"x": x})
    agrees(of_texts("MurmurHash3", ["n", 5], dtype, positive=positive), {"x": x})


@pytest.mark.parametrize(
    ("attributes", "kind", "said"),
    [
        ({}, ModelError, "either separators or tokenexp"),
        ({"tokenexp": ".", "mincharnum": 2}, ModelError, "each character is a token"),
        ({"tokenexp": "a", "mincharnum": 0}, ModelError, "mincharnum is 0"),
        ({"tokenexp": r"\bfox\b"}, UnsupportedOperatorError, "asks for what is around a token"),
        ({"tokenexp": "fox$"}, UnsupportedOperatorError, "asks for what is around a token"),
        ({"tokenexp": "("}, ModelError, "is not a regular expression"),
    ],
)
def test_what_is_no_tokenizer_is_refused(attributes: dict[str, Any], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        vmkit.compile(of_texts("Tokenizer", ["n"], **PLAIN | attributes), target="llvm")


@pytest.mark.sweep
@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "int64", "uint64", "float64"])
def test_hashes_of_numbers_are_those_of_their_bytes(dtype: str, positive: int) -> None:
    given = np.random.default_rng(3).integers(0, 256, (7, 5 * np.dtype(dtype).itemsize), "uint8").view(dtype)
    given[0, :3] = [0, 1, 2**31 - 1]
    if dtype.startswith("int"):
        given[0, 3:] = [-1, np.iinfo(dtype).min]
    made = TensorProto.UINT32 if positive else TensorProto.INT32
    for attributes in ({}, {"seed": 77}):
        inputs = {"x": (["n", 5], np.dtype(dtype).type)}
        proto = single("MurmurHash3", inputs, [made], domain="com.microsoft", positive=positive, **attributes)
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        agrees(proto, {"x": given})
        machine = vmkit.VirtualMachine(vmkit.compile(proto, "llvm"), "cpu")
        expected = [murmur_hash(number.tobytes(), attributes.get("seed", 0)) for number in given.reshape(-1)]
        np.testing.assert_array_equal(machine.run(given).numpy().astype("uint32").reshape(-1), expected)


def test_hashes_of_other_numbers_are_refused() -> None:
    proto = single("MurmurHash3", {"x": (["n"], np.int8)}, [TensorProto.UINT32], domain="com.microsoft")
    with pytest.raises(UnsupportedOperatorError, match=r"hashes are of strings, int32, .*, not of int8"):
        vmkit.compile(proto, target="llvm")
