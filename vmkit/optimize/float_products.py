"""Products of integers of 8 bits whose sums float32 holds exactly are computed in float32, whose kernels are fast."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..relay.ir import Call, Constant, Expr, Op, RelayExpr, const
from ..relay.op.nn.layout import axes_of
from ..relay.op.pointwise import is_move
from ..relay.op.registry import build
from ..relay.op.saturation import integer_range
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.layout_rules import with_attrs
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from .integer_products import known_integers, moved

__all__ = ["EXACT", "FloatProducts", "Numbers", "numbers_of"]

EXACT = 1 << 24
"""Integers up to this are exact in float32, and so is each partial sum of a product that stays below."""
_MOST_PARTS = 16
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


@relay_pass(opt_level=1)
def FloatProducts() -> ModuleTransform:
    """Return the pass that computes int32 sums of products of 8-bit integers in float32 where that is exact.

    It is where no partial sum can leave the integers that float32 holds: as known from the numbers of a constant
    weight, and from the count of terms otherwise. A sum of too many terms is cut in parts.
    """
    return per_function(lambda function: rewrite_typed(function, _chosen))


@dataclass(frozen=True)
class Numbers:
    """A tensor of integers in a data type that holds them, and the range that they are in."""

    real: Any
    low: int
    high: int

    @property
    def most(self) -> int:
        return max(abs(self.low), abs(self.high))


def numbers_of(value: Expr, dtype: str = "float32") -> Numbers | None:
    """Return what is made of 8-bit integers by moving and subtracting them; None for anything else.

    The data type holds all of int16.
    """
    known = known_integers(value)
    if known is not None:
        low, high = int(known.min(initial=0)), int(known.max(initial=0))
        return Numbers(const(known.astype(dtype)), low, high) if max(-low, high) < 1 << 15 else None
    if not (isinstance(value, Call) and isinstance(value.op, Op)):
        return None
    if is_move(value):
        inner = numbers_of(value.args[0], dtype)
        return None if inner is None else Numbers(moved(value, inner.real), inner.low, inner.high)
    if value.op.name == "subtract":
        a, b = (numbers_of(arg, dtype) for arg in value.args)
        if a is None or b is None or max(b.high - a.low, a.high - b.low) >= (1 << 15 if dtype == "int16" else EXACT):
            return None
        return Numbers(build("subtract", a.real, b.real), a.low - b.high, a.high - b.low)
    if value.op.name == "cast" and type_of(value.args[0]).dtype in ("int8", "uint8"):
        low, high = integer_range(type_of(value.args[0]).dtype)
        return Numbers(build("cast", value.args[0], dtype=dtype), low, high)
    return None


def _chosen(node: RelayExpr) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and len(node.args) == 2):
        return node
    axes = _summed(node)
    if axes is None or type_of(node).dtype != "int32":
        return node
    a, b = (numbers_of(arg) for arg in node.args)
    if a is None or b is None:
        return node
    of_a, of_b, others, groups = axes
    shape = type_of(node.args[1]).shape
    lengths = [shape[axis] for axis in (of_b, *others)]
    if not all(isinstance(length, int) for length in lengths):
        return node
    terms = int(np.prod(lengths))
    known = np.abs(b.real.data.numpy().astype("int64")) if isinstance(b.real, Constant) else None

    def is_exact(count: int) -> bool:
        """Say whether every part of a sum cut in `count` is."""
        if known is None:
            return a.most * b.most * -(-terms // count) <= EXACT
        parts = np.array_split(known, count, axis=of_b)
        return all(a.most * int(p.sum(axis=(of_b, *others)).max(initial=0)) <= EXACT for p in parts)

    most = min(lengths[0], _MOST_PARTS) if groups == 1 else 1
    count = next((n for n in range(1, max(most, 1) + 1) if is_exact(n)), None)
    if count is None:
        return node
    pairs = zip(_parts(a.real, count, lengths[0], of_a), _parts(b.real, count, lengths[0], of_b), strict=True)
    sums = [build("cast", _product(node, p, q), dtype="int32") for p, q in pairs]
    return reduce(lambda total, more: build("add", total, more), sums)


def _summed(node: Call) -> tuple[int, int, tuple[int, ...], int] | None:
    """Return the axes of data and weight that are summed over and can be cut, the weight's others, and the groups."""
    if node.op.name == "nn.dense":
        return len(type_of(node.args[0]).shape) - 1, 1, (), 1
    if node.op.name == "nn.batch_matmul":
        return 1 if node.attrs.transpose_a else 2, 2 if node.attrs.transpose_b else 1, (), 1
    if node.op.name == "nn.matmul":
        rank = len(type_of(node.args[0]).shape)
        return rank - (2 if node.attrs.transpose_a else 1), 1 if node.attrs.transpose_b else 0, (), 1
    if node.op.name in _CONVOLUTIONS and node.attrs.kernel_layout.isalpha():
        data, weight = axes_of(node.attrs.data_layout), axes_of(node.attrs.kernel_layout)
        if "C" not in data:
            return None
        window = tuple(at for at, axis in enumerate(weight) if axis not in "OI")
        return data.index("C"), weight.index("I"), window, node.attrs.groups
    return None


def _product(node: Call, a: Expr, b: Expr) -> Expr:
    return Call(node.op, [a, b], with_attrs(node, out_dtype="float32"), span=node.span)


def _parts(x: Expr, count: int, length: int, axis: int) -> list[Expr]:
    """Return a tensor cut along an axis into parts of nearly one size."""
    if count == 1:
        return [x]
    if isinstance(x, Constant):
        return [const(np.ascontiguousarray(p)) for p in np.array_split(x.data.numpy(), count, axis=axis)]
    ends = np.cumsum([len(p) for p in np.array_split(np.arange(length), count)])
    cut: Callable[..., Any] = build
    return list(cut("split", x, indices_or_sections=[int(e) for e in ends[:-1]], axis=axis))
