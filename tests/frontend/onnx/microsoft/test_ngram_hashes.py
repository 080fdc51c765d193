"""Hashes of tokens: of texts side by side, and of texts one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.microsoft.ragged import LENGTHS, ends_of
from tests.frontend.onnx.programs import Compiled, check, outputs_of
from vmkit.errors import ModelError, VMError

SIZES: dict[str, Any] = {"max_ngram_size": 3, "n_head_per_ngram": 2, "pad_id": 99}
# Products of tokens and the second number are larger than the type holds.
MULTIPLIERS = {"int32": [3, 1640531527, 7], "int64": [3, 6364136223846793005, 7, 9]}
TABLES = [10007, 10009, 10037, 10039]


def constants(dtype: str) -> dict[str, np.ndarray]:
    given = {"m": MULTIPLIERS[dtype], "v": TABLES, "o": [1, 2, 3, 4], "e": 2}
    return {name: np.array(value, dtype) for name, value in given.items()}


def tokens(*shape: int, seed: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 5, shape).astype(dtype)


def integers(nodes: list[onnx.NodeProto], dtype: str) -> dict[str, int]:
    """Return the types of outputs: segments are int32."""
    own = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return {o: onnx.TensorProto.INT32 if o.startswith("q") else own for n in nodes for o in n.output}


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_texts_side_by_side(dtype: str) -> None:
    nodes = [
        ms("NGramHashMapping", "i m v", "a pa", **SIZES), ms("NGramHashMapping", "i m v p o", "b pb", **SIZES),
        ms("NGramHashMapping", "i m v p _ e", "d pd", reset_on_eos=1, **SIZES),
        ms("NGramHashMapping", "i m v _ _ e", "f pf", **SIZES),
        ms("NGramHashMapping", "i m v p _ _ s", "g pg", **SIZES),
        ms("NGramHashMapping", "i m v p o e s", "h ph", reset_on_eos=1, **SIZES),
    ]  # fmt: skip
    inputs = {"i": (["b", "t"], dtype), "p": (["b", 2], dtype), "s": (["b", "t"], "int32")}
    feeds = [
        {
            "i": tokens(b, t, seed=0, dtype=dtype), "p": tokens(b, 2, seed=1, dtype=dtype),
            "s": np.sort(tokens(b, t, seed=2, dtype="int32"), 1),
        }
        for b, t in ((1, 1), (2, 7), (3, 3))
    ]  # fmt: skip
    check(microsoft(nodes, inputs, outputs_of(nodes), constants(dtype), integers=integers(nodes, dtype)), *feeds)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_texts_one_behind_the_other(dtype: str) -> None:
    kind = "VarlenNGramHashMapping"
    nodes = [
        ms(kind, "i m v z", "a pa", **SIZES), ms(kind, "i m v z p o", "b pb", **SIZES),
        ms(kind, "i m v z p _ e", "d pd", reset_on_eos=1, **SIZES), ms(kind, "i m v z p _ _ s", "g pg qg", **SIZES),
        ms(kind, "i m v z p o e s q c", "h ph qh uh", reset_on_eos=1, state_update_capacity=3, **SIZES),
        ms(kind, "i m v z _ _ e s q", "j pj qj", **SIZES),
        ms(kind, "i m v z _ _ _ _ _ c", "k pk _ uk", state_update_capacity=4, **SIZES),
    ]  # fmt: skip
    nodes = nodes if dtype == "int64" else nodes[4:5]
    inputs: dict[str, Any] = {
        "i": (["n"], dtype), "z": (["r"], "int32"), "p": (["b", 2], dtype), "s": (["n"], "int32"),
        "q": (["b", 2], "int32"), "c": (["b"], "int32"),
    }  # fmt: skip
    feeds = [
        {
            "i": tokens(sum(l), seed=0, dtype=dtype), "z": ends_of(l), "p": tokens(len(l), 2, seed=1, dtype=dtype),
            "s": np.sort(tokens(sum(l), seed=2, dtype="int32")), "q": tokens(len(l), 2, seed=3, dtype="int32"),
            "c": np.arange(1, len(l) + 1).astype("int32"),
        }
        for l in LENGTHS  # noqa: E741
    ]  # fmt: skip
    check(microsoft(nodes, inputs, outputs_of(nodes), constants(dtype), integers=integers(nodes, dtype)), *feeds)


def test_sizes_of_tables_are_larger_than_0() -> None:
    inputs = {"i": (["b", "t"], "int64")}
    node = ms("NGramHashMapping", "i m v", "y", **SIZES)
    known = constants("int64") | {"v": np.array([1, 2, 0, 3])}
    with pytest.raises(ModelError, match="vocab_sizes are sizes of tables, which are larger than 0; 0 is among them"):
        Compiled(microsoft([node], inputs, "y", known, integers={"y": 7}))
    del known["v"]
    compiled = Compiled(microsoft([node], inputs | {"v": ([4], "int64")}, "y", known, integers={"y": 7}))
    with pytest.raises(VMError, match="vocab_sizes are sizes of tables"):
        compiled(i=np.zeros((1, 2), "int64"), v=np.array([1, 2, -1, 3]))
    compiled(i=np.zeros((1, 2), "int64"), v=np.array([1, 2, 4, 3]))
