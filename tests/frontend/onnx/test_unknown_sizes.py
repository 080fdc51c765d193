"""Operators that broadcast, where nothing is known of two sizes before the program runs.

Every operator is compiled twice: for inputs whose dimensions all have names of their own, and for tensors whose
dimensions have none, for they are reshaped to what another input says. Both must do what numpy does where sizes are
equal, where one is 1 or 0, and name both sizes where they do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, model, node
from vmkit.errors import VMError

Sizes = Sequence[Sequence[tuple[int, ...]]]


@dataclass(frozen=True)
class Case:
    """Nodes over the inputs `a`, `b`, `c` and the result `y`: what they compute, and at which sizes."""

    nodes: Sequence[onnx.NodeProto]
    expected: Callable[..., Any]
    fitting: Sizes
    others: Sizes
    dtype: str = "float32"
    opset: int = 18


PAIRS = [
    [(2, 3), (2, 3)], [(1, 3), (2, 3)], [(2, 3), (2, 1)], [(1, 1), (2, 3)], [(1, 0), (2, 1)], [(0, 3), (1, 1)],
]  # fmt: skip
MISMATCHES = [[(2, 3), (4, 3)], [(2, 0), (2, 3)]]


def _pairs(op_type: str, expected: Callable[..., Any], dtype: str = "float32", **attributes: Any) -> Case:
    return Case([node(op_type, "a b", "y", **attributes)], expected, PAIRS, MISMATCHES, dtype)


def _triples(op_type: str, expected: Callable[..., Any]) -> Case:
    return Case(
        [node(op_type, "a b c", "y")],
        expected,
        [[(2, 3), (1, 3), (2, 1)], [(1, 1), (1, 3), (2, 1)], [(0, 1), (1, 3), (1, 1)]],
        [[(2, 3), (1, 3), (3, 1)], [(2, 3), (2, 4), (1, 1)]],
    )


def _standardized(x: Any, axes: tuple[int, ...]) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    return x / np.sqrt(1 + 1e-5) * scale.reshape(1, -1, 1) + shift.reshape(1, -1, 1)


CASES = {
    "Add": _pairs("Add", np.add),
    "Sub": _pairs("Sub", np.subtract),
    "Mul": _pairs("Mul", np.multiply),
    "Div": _pairs("Div", np.divide),
    "Pow": _pairs("Pow", np.power),
    "Mod": _pairs("Mod", np.fmod, fmod=1),
    "Max": _pairs("Max", np.maximum),
    "Min": _pairs("Min", np.minimum),
    "Sum": _pairs("Sum", np.add),
    "Equal": _pairs("Equal", np.equal),
    "Greater": _pairs("Greater", np.greater),
    "GreaterOrEqual": _pairs("GreaterOrEqual", np.greater_equal),
    "Less": _pairs("Less", np.less),
    "LessOrEqual": _pairs("LessOrEqual", np.less_equal),
    "And": _pairs("And", np.logical_and, "bool"),
    "Or": _pairs("Or", np.logical_or, "bool"),
    "Xor": _pairs("Xor", np.logical_xor, "bool"),
    "BitwiseAnd": _pairs("BitwiseAnd", np.bitwise_and, "int32"),
    "BitShift": _pairs("BitShift", np.left_shift, "uint32", direction="LEFT"),
    "Max of three": _triples("Max", lambda a, b, c: np.maximum(np.maximum(a, b), c)),
    "Min of three": _triples("Min", lambda a, b, c: np.minimum(np.minimum(a, b), c)),
    "Sum of three": _triples("Sum", lambda a, b, c: a + b + c),
    "Mean of three": _triples("Mean", lambda a, b, c: (a + b + c) / 3),
    "Where": Case(
        [node("Greater", "a c", "g"), node("Where", "g b c", "y")],
        lambda a, b, c: np.where(a > c, b, c),
        [[(2, 3), (1, 3), (2, 1)], [(1, 1), (2, 1), (1, 3)], [(0, 1), (1, 3), (1, 1)]],
        [[(2, 3), (4, 3), (1, 1)]],
    ),
    "tensors of different ranks": Case(
        [node("Add", "a b", "y")],
        np.add,
        [[(2, 3, 4, 5), (4, 5)], [(2, 3, 1, 5), (4, 1)], [(0, 3, 4, 5), (1, 1)]],
        [[(2, 3, 4, 5), (3, 5)]],
    ),
    "a chain": Case(
        [node("Add", "a b", "t"), node("Mul", "t c", "u"), node("Sub", "u a", "y")],
        lambda a, b, c: (a + b) * c - a,
        [[(2, 3), (1, 3), (2, 1)], [(1, 1), (1, 1), (2, 3)], [(0, 1), (1, 3), (1, 1)]],
        [[(2, 3), (2, 3), (3, 3)]],
    ),
    "PRelu": Case(
        [node("PRelu", "a b", "y")],
        lambda a, b: np.where(a < 0, a * b, a),
        [[(2, 3, 4), (3, 1)], [(2, 3, 4), (1, 4)], [(2, 3, 4), (1, 1)], [(0, 3, 4), (3, 4)]],
        [[(2, 3, 4), (4, 1)]],
    ),
    "Expand": Case(
        [node("Shape", "b", "s"), node("Expand", "a s", "y")],
        lambda a, b: np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)),
        PAIRS,
        MISMATCHES,
    ),
    "MatMul of stacks": Case(
        [node("MatMul", "a b", "y")],
        np.matmul,
        [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (2, 4, 5)], [(2, 3, 4), (1, 4, 5)], [(0, 3, 4), (1, 4, 5)]],
        [[(2, 3, 4), (3, 4, 5)], [(2, 3, 4), (2, 3, 5)]],
    ),
    "MatMul of stacks of stacks": Case(
        [node("MatMul", "a b", "y")],
        np.matmul,
        [[(2, 2, 3, 4), (2, 2, 4, 5)], [(1, 2, 3, 4), (2, 1, 4, 5)], [(0, 2, 3, 4), (1, 2, 4, 5)]],
        [[(2, 2, 3, 4), (3, 2, 4, 5)], [(2, 2, 3, 4), (2, 3, 4, 5)]],
    ),
    "MatMul of stacks of different depth": Case(
        [node("MatMul", "a b", "y")],
        np.matmul,
        [[(2, 2, 3, 4), (2, 4, 5)], [(2, 2, 3, 4), (1, 4, 5)], [(2, 1, 3, 4), (2, 4, 5)]],
        [[(2, 3, 3, 4), (2, 4, 5)]],
    ),
    "MatMul by a matrix": Case(
        [node("MatMul", "a b", "y")],
        np.matmul,
        [[(2, 2, 3, 4), (4, 5)], [(1, 2, 1, 4), (4, 1)], [(0, 2, 3, 4), (4, 5)]],
        [[(2, 2, 3, 4), (3, 5)]],
    ),
    "Gemm": Case(
        [node("Gemm", "a b c", "y")],
        lambda a, b, c: a @ b + c,
        [[(2, 3), (3, 4), (2, 4)], [(2, 3), (3, 4), (1, 4)], [(2, 3), (3, 4), (2, 1)], [(0, 3), (3, 4), (1, 4)]],
        # The last two would make the product larger, which ONNX does not have.
        [[(2, 3), (3, 4), (3, 4)], [(2, 3), (2, 4), (1, 4)], [(1, 3), (3, 4), (5, 4)], [(2, 3), (3, 1), (1, 4)]],
    ),
    "Einsum": Case(
        [node("Einsum", "a b", "y", equation="bij,bjk->bik")],
        lambda a, b: np.matmul(a, b),
        [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (2, 4, 5)], [(2, 3, 4), (1, 4, 5)], [(0, 3, 4), (1, 4, 5)]],
        [[(2, 3, 4), (3, 4, 5)], [(2, 3, 4), (2, 3, 5)]],
    ),
    "Concat": Case(
        [node("Concat", "a b", "y", axis=0)],
        lambda a, b: np.concatenate([a, b], 0),
        [[(2, 3), (4, 3)], [(0, 3), (4, 3)], [(1, 1), (2, 1)]],
        [[(2, 3), (4, 1)], [(2, 1), (2, 3)]],
    ),
    "LayerNormalization": Case(
        [node("LayerNormalization", "a b c", "y")],
        lambda a, b, c: _standardized(a, (-1,)) * b + c,
        [[(2, 3), (3,), (3,)], [(2, 3), (1,), (3,)], [(0, 3), (3,), (1,)]],
        [[(2, 3), (4,), (3,)], [(2, 3), (3,), (2,)]],
        opset=17,
    ),
    "BatchNormalization": Case(
        [node("Mul", "b zero", "z"), node("Add", "z one", "o"), node("BatchNormalization", "a b c z o", "y")],
        _batch_norm,
        [[(2, 3, 4), (3,), (3,)], [(0, 3, 4), (3,), (3,)], [(2, 1, 4), (1,), (1,)]],
        [[(2, 3, 4), (4,), (3,)], [(2, 3, 4), (3,), (2,)]],
    ),
    "InstanceNormalization": Case(
        [node("InstanceNormalization", "a b c", "y")],
        lambda a, b, c: _standardized(a, (2,)) * b.reshape(-1, 1) + c.reshape(-1, 1),
        [[(2, 3, 4), (3,), (3,)], [(2, 1, 4), (1,), (1,)]],
        [[(2, 3, 4), (4,), (3,)], [(2, 3, 4), (3,), (1,)]],
    ),
}  # fmt: skip

# One of each kind; the others differ in what is computed of two elements.
_QUICK = {
    "Add", "Equal", "And", "Mean of three", "Where", "a chain", "PRelu", "Expand", "MatMul of stacks",
    "MatMul by a matrix", "Gemm", "Concat", "LayerNormalization", "BatchNormalization",
}  # fmt: skip


def _array(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    return (rng.random(shape) * 4 + 0.5).astype(dtype)


def _named(case: Case, ranks: Sequence[int]) -> onnx.ModelProto:
    inputs = {n: ([f"{n}{i}" for i in range(r)], case.dtype) for n, r in zip("abc", ranks, strict=False)}
    return model(case.nodes, inputs, "y", _CONSTANTS, opset=case.opset)


def _unnamed(case: Case, ranks: Sequence[int]) -> onnx.ModelProto:
    names = "abc"[: len(ranks)]
    first = [node("Reshape", f"{n}_all {n}_shape", n, allowzero=1) for n in names]
    inputs: Any = {f"{n}_all": ([f"{n}_size"], case.dtype) for n in names}
    inputs |= {f"{n}_shape": ([r], "int64") for n, r in zip(names, ranks, strict=True)}
    return model([*first, *case.nodes], inputs, "y", _CONSTANTS, opset=case.opset)


_CONSTANTS = {"zero": np.float32(0), "one": np.float32(1)}


@pytest.mark.parametrize("is_named", [True, False], ids=["other names", "no names"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in _QUICK else [pytest.mark.nightly]) for n in CASES])
def test_sizes_meet_at_run_time(name: str, is_named: bool) -> None:
    case = CASES[name]
    ranks = [len(s) for s in case.fitting[0]]
    compiled = Compiled((_named if is_named else _unnamed)(case, ranks))

    def result(arrays: Sequence[np.ndarray]) -> np.ndarray:
        given = dict(zip("abc", arrays, strict=False))
        if is_named:
            return compiled(**given)[0]
        shapes = {f"{n}_shape": np.array(v.shape, "int64") for n, v in given.items()}
        return compiled(**{f"{n}_all": v.ravel() for n, v in given.items()}, **shapes)[0]

    for sizes in case.fitting:
        arrays = [_array(s, case.dtype, i) for i, s in enumerate(sizes)]
        expected, actual = case.expected(*arrays), result(arrays)
        assert actual.shape == expected.shape, sizes
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, err_msg=str(sizes))
    for sizes in case.others:
        with pytest.raises(VMError) as caught:
            result([_array(s, case.dtype, i) for i, s in enumerate(sizes)])
        text = str(caught.value)
        differing = {d for s in sizes for d in s}
        assert sum(str(d) in text for d in differing) >= 2 and "match_cast" not in text, (sizes, text)
