"""Reductions to a position: where the largest or the smallest element is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx, topi

from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, Ints, attrs_node, field
from .elementwise import require_tensor
from .ordering import first_largest, first_smallest, is_number
from .reduce import reduced_axes, reduced_shape
from .registry import OpPattern, Parameters, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__: list[str] = []

# What has no comparisons of its own is compared as something that holds all of its values.
_COMPARED_AS = {"bool": "int8", "bfloat16": "float32"}


@attrs_node("relay.attrs.ArgReduceAttrs")
class ArgReduceAttrs(Attrs):
    """Attributes of argmax and argmin."""

    axis: Ints | None = field(None, doc="The axes that are searched; all where it is left open.")
    keepdims: Bool = field(False, doc="Whether the searched axes stay, with size 1.")
    select_last_index: Bool = field(False, doc="Whether the last of equal elements is meant.")
    exclude: Bool = field(False, doc="Whether the axes are those that are not searched.")


def _reducer(is_better: Callable[..., tirx.Expr], last: bool) -> Callable[..., tuple[tirx.Expr, ...]]:
    """Return a reduction of pairs (position, value) to the one with the best value.

    No position, -1, loses against every other: a worst value to start from would be as good as an element equal to it.
    """

    def pick(one: tuple[tirx.Expr, tirx.Expr], other: tuple[tirx.Expr, tirx.Expr]) -> tuple[tirx.Expr, tirx.Expr]:
        (i, x), (j, y) = one, other
        preferred = j > i if last else j < i
        # Asked of the further one, so that NaN is never taken.
        goes = tirx.all(j >= 0, tirx.any(tirx.all(i < 0, is_number(y)), is_better(y, x), tirx.all(x == y, preferred)))
        return tirx.Select(goes, j, i), tirx.Select(goes, y, x)

    return te.comm_reducer(pick, lambda i, x: (tirx.const(-1, i), tirx.const(0, x)), name="position")


def _position(attrs: ArgReduceAttrs, data: te.Tensor, is_better: Callable[..., tirx.Expr]) -> te.Tensor:
    rank, axes = len(data.shape), reduced_axes(attrs, len(data.shape))
    if not axes:
        return te.compute(data.shape, lambda *i: tirx.const(0, "int32"), name="position")
    over = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axes}
    kept = [a for a in range(rank) if a not in over]
    if str(data.dtype) in _COMPARED_AS:
        data = topi.cast(data, _COMPARED_AS[str(data.dtype)])
    reduce = _reducer(is_better, attrs.select_last_index)

    def element(*index: tirx.Expr) -> tuple[tirx.Expr, ...]:
        at = dict(enumerate(index)) if attrs.keepdims else dict(zip(kept, index, strict=True))
        flat: Any = tirx.IntImm("int64", 0)
        for axis, k in over.items():
            flat = flat * data.shape[axis] + k
        value = data(*[over[a] if a in over else at[a] for a in range(rank)])
        return reduce((flat.astype("int32"), value), axis=list(over.values()))

    found = te.compute(reduced_shape(attrs, list(data.shape)), element, name="position")
    count = math.prod(data.shape[a] for a in axes)
    # Where there is nothing but NaN, the first is as good as any.
    return te.compute(
        found[0].shape, lambda *i: tirx.Select(count > 0, tirx.max(found[0](*i), 0), found[0](*i)), name="first"
    )


def _best(is_max: bool, dtype: str) -> Callable[..., tirx.Expr]:
    """Return the reduction to the largest or the smallest element; TVM's own start from the finite numbers."""
    if not dtype.startswith("float"):
        return te.max if is_max else te.min
    if is_max:
        return te.comm_reducer(first_largest, lambda t: tirx.const(-math.inf, t), name="best")
    return te.comm_reducer(first_smallest, lambda t: tirx.const(math.inf, t), name="best")


def _in_last(context: LowerContext, attrs: ArgReduceAttrs, data: relax.Expr, is_max: bool) -> relax.Expr:
    """Return positions along the last axis, which two reductions of vectors find: the best, and where that is first."""

    def reduce_best(data: te.Tensor) -> te.Tensor:
        if str(data.dtype) in _COMPARED_AS:
            data = topi.cast(data, _COMPARED_AS[str(data.dtype)])
        k = te.reduce_axis((0, data.shape[-1]), name="k")
        reduce = _best(is_max, str(data.dtype))
        return te.compute(data.shape[:-1], lambda *i: reduce(data(*i, k), axis=k), name="best")

    def reduce_place(data: te.Tensor, best: te.Tensor) -> te.Tensor:
        extent, outer = data.shape[-1], list(data.shape[:-1])
        last = attrs.select_last_index
        first_of, none = (te.max, tirx.const(-1, "int32")) if last else (te.min, tirx.max_value("int32"))
        k = te.reduce_axis((0, extent), name="k")

        def place(*i: tirx.Var) -> tirx.Expr:
            is_best = data(*i, k).astype(best.dtype) == best(*i)
            return first_of(tirx.Select(is_best, k.var.astype("int32"), none), axis=k)

        found = te.compute(outer, place, name="place")

        def element(*i: tirx.Var) -> tirx.Expr:
            at = found(*i[: len(outer)])
            # Of numbers that are none, which equal nothing, the first is given; of nothing, no position.
            known = tirx.Select(tirx.all(at >= 0, at < extent.astype("int32")), at, tirx.const(0, "int32"))
            return tirx.Select(extent > 0, known, tirx.const(-1, "int32"))

        return te.compute([*outer, 1] if attrs.keepdims else outer, element, name="position")

    return context.te(reduce_place, data, context.te(reduce_best, data))


def _arg_reduction(name: str, doc: str, is_better: Callable[..., tirx.Expr]) -> None:
    def relation(attrs: ArgReduceAttrs, data: Type) -> Type:
        return TensorType(reduced_shape(attrs, list(require_tensor(data).shape)), "int32")

    def lower(context: LowerContext, attrs: ArgReduceAttrs, data: relax.Expr) -> relax.Expr:
        rank = len(context.shape(data))
        if rank and reduced_axes(attrs, rank) == [rank - 1]:
            return _in_last(context, attrs, data, name == "argmax")
        return context.te(lambda data: _position(attrs, data, is_better), data, pattern=OpPattern.COMM_REDUCE)

    register = operator(
        name,
        "data",
        attrs=ArgReduceAttrs,
        level=4,
        pattern=OpPattern.COMM_REDUCE,
        parameters=Parameters("data axis keepdims exclude select_last_index"),
        mixed="follow",
        layout="reduce",
    )
    register(type(name, (), {"__doc__": doc, "relation": staticmethod(relation), "lower": staticmethod(lower)}))


_arg_reduction(
    "argmax", "Position of the largest element over axes: the first, or the last; -1 of none.", lambda x, y: x > y
)
_arg_reduction(
    "argmin", "Position of the smallest element over axes: the first, or the last; -1 of none.", lambda x, y: x < y
)
