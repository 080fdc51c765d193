"""Labels encoded and categories as one-hot codes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import vmkit
from tests.frontend.onnx.ml.models import I64, F, S, agrees, single, texts
from vmkit.errors import VMError
from vmkit.relay.frontend import from_onnx
from vmkit.relay.ir import Call, Op, post_order

KEYS = {"strings": ["a", "é", "", "a"], "int64s": [5, -2, 9, 5], "floats": [0.5, float("nan"), -2.0, 0.5]}

TYPES = {"strings": (object, S), "int64s": ("int64", I64), "floats": ("float32", F)}


@pytest.mark.sweep
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("values", KEYS)
def test_labels_are_encoded(keys: str, values: str) -> None:
    dtype, _ = TYPES[keys]
    x = np.array([*KEYS[keys], *{"strings": ["zz"], "int64s": [7], "floats": [0.25]}[keys]], dtype).reshape(5, 1)
    attributes = {f"keys_{keys}": KEYS[keys][:3], f"values_{values}": [*KEYS[values][:2], *KEYS[values][:1]]}
    attributes |= {"default_string": "none", "default_int64": 77, "default_float": 1.5}
    for version in (2, 4):
        model = single("LabelEncoder", {"x": (["n", 1], dtype)}, [TYPES[values][1]], version, **attributes)
        agrees(model, {"x": x}, {"x": x[:0]})


@pytest.mark.parametrize("dtype", ["int16", "int32", "float64"])
def test_labels_are_encoded_by_tables_that_are_tensors(dtype: str) -> None:
    keys, values = np.array([3, 1, 2], dtype), np.array([10, 20, 30], dtype)
    given = {"keys_tensor": keys, "values_tensor": values, "default_tensor": np.array([5], dtype)}
    attributes = {name: numpy_helper.from_array(array, name) for name, array in given.items()}
    code = int(attributes["keys_tensor"].data_type)
    machine = vmkit.VirtualMachine(
        vmkit.compile(single("LabelEncoder", {"x": (["n"], dtype)}, [code], **attributes), target="llvm")
    )
    np.testing.assert_array_equal(machine.run(np.array([2, 3, 9], dtype)).numpy(), np.array([30, 10, 5], dtype))


def test_the_first_label_encoder_and_the_category_mapper_go_both_ways() -> None:
    words, places = texts("b", "x", "a"), np.array([1, 5, 0])
    for op_type, attributes in (
        ("LabelEncoder", {"classes_strings": ["a", "b"]}),
        ("CategoryMapper", {"cats_strings": ["a", "b"], "cats_int64s": [0, 1]}),
    ):
        shared = {"default_string": "none", "default_int64": 9, **attributes}
        agrees(single(op_type, {"x": (["n"], object)}, [I64], 1, **shared), {"x": words})
        agrees(single(op_type, {"x": (["n"], "int64")}, [S], 1, **shared), {"x": places})


def test_categories_become_one_hot_codes() -> None:
    words = texts("b", "zz", "a").reshape(3, 1)
    agrees(single("OneHotEncoder", {"x": (["n", 1], object)}, [F], cats_strings=["a", "b"], zeros=1), {"x": words})
    model = single("OneHotEncoder", {"x": (["n"], "int64")}, [F], cats_int64s=[4, 2, 7], zeros=0)
    agrees(model, {"x": np.array([2, 4, 7, 7])})
    with pytest.raises(VMError, match="none of the categories"):
        vmkit.VirtualMachine(vmkit.compile(model, target="llvm")).run(np.array([2, 3]))


@pytest.mark.parametrize(
    "keys", [[0, 1, 2], [-4, 9, 5], [-(2**63), 2 - 2**63], [2**63 - 1, 2**63 - 2], [3], [0, 10**12]]
)
def test_integers_near_each_other_are_counted_and_not_searched(keys: list[int]) -> None:
    others = [-(2**63), 2**63 - 1, 0, 7, *(key + step for key in keys for step in (-1, 1) if abs(key + step) < 2**63)]
    x = np.array([*keys, *others], "int64")
    encoder = single(
        "LabelEncoder", {"x": (["n"], "int64")}, [F], keys_int64s=keys, values_floats=[*map(float, x)][: len(keys)]
    )
    codes = single("OneHotEncoder", {"x": (["n"], "int64")}, [F], cats_int64s=keys)
    for model in (encoder, codes):
        agrees(model, {"x": x}, {"x": x[:0]})
        module, _ = from_onnx(model)
        names = {
            node.op.name for node in post_order(module["main"]) if isinstance(node, Call) and isinstance(node.op, Op)
        }
        assert ("contrib_find" in names) == (max(keys) > 10**9 and min(keys) == 0)
