"""Reductions: sum, mean, extremes, logical ones, variance; and what Relay composed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from tvm import relax, te, tirx, topi

from ...errors import TypeCheckError
from ..ir.expr import Call, Expr, Tuple
from ..ir.tuple_wrapper import TupleWrapper
from ..ir.types import Dim, TensorType, Type
from .agreement import may_agree
from .attrs import Attrs, Bool, Ints, attrs_node, attrs_row, field
from .axis import Axes, resolve_axes
from .elementwise import require_tensor
from .ordering import first_largest, first_smallest
from .registry import Mixed, OpPattern, Parameters, build, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["EXTREMES", "logsumexp", "mean_std", "mean_variance", "reduced_axes", "reduced_shape", "std"]


@attrs_row
class ReductionAttrs(Attrs):
    """What the reductions to a number have in common."""

    axis: Ints | None = field(None, doc="The axes that are reduced; all where it is left open.")
    keepdims: Bool = field(False, doc="Whether the reduced axes stay, with size 1.")
    exclude: Bool = field(False, doc="Whether the axes are those that are not reduced.")


@attrs_node("relay.attrs.ReduceAttrs")
class ReduceAttrs(ReductionAttrs):
    """Attributes of the reductions."""


@attrs_node("relay.attrs.VarianceAttrs")
class VarianceAttrs(ReductionAttrs):
    """Attributes of variance."""

    unbiased: Bool = field(False, doc="Whether one less than the count is what the sum is divided by.")


class Reduced(Protocol):
    """What the attributes of every reduction say."""

    axis: Ints | None
    keepdims: Bool
    exclude: Bool


def reduced_axes(attrs: Reduced, rank: int) -> list[int]:
    """Return the axes that a reduction goes over; with exclude, all but those given."""
    named = resolve_axes(attrs.axis, rank)
    if attrs.exclude and attrs.axis is not None:
        named = [a for a in range(rank) if a not in named]
    elif attrs.exclude:
        named = []
    return sorted(named)


def reduced_shape(attrs: Reduced, shape: list[Dim]) -> list[Dim]:
    """Return the shape of a result: without the axes that were reduced, or with 1 for each."""
    axes = reduced_axes(attrs, len(shape))
    if attrs.keepdims:
        return [1 if i in axes else d for i, d in enumerate(shape)]
    return [d for i, d in enumerate(shape) if i not in axes]


def _relation(attrs: Reduced, data: Type) -> Type:
    source = require_tensor(data)
    return TensorType(reduced_shape(attrs, list(source.shape)), source.dtype)


def _bool_relation(attrs: Reduced, data: Type) -> Type:
    if require_tensor(data).dtype != "bool":
        raise TypeCheckError(f"the input must be bool, not {data.dtype}; compare or cast it")
    return _relation(attrs, data)


def _reduction(
    name: str,
    doc: str,
    reduce: Callable[..., te.Tensor],
    for_bool: Callable[..., te.Tensor],
    relation: Callable[..., Type] = _relation,
    mixed: Mixed | None = None,
) -> None:
    """Register a reduction; TVM has no arithmetic on bool, so that has a logical form of its own."""

    def compute(attrs: ReduceAttrs, data: te.Tensor) -> te.Tensor:
        axes = reduced_axes(attrs, len(data.shape))
        if not axes:
            return topi.identity(data)
        return (for_bool if str(data.dtype) == "bool" else reduce)(data, axis=axes, keepdims=attrs.keepdims)

    body = {"__doc__": doc, "relation": staticmethod(relation), "compute": staticmethod(compute)}
    operator(name, "data", attrs=ReduceAttrs, level=4, pattern=OpPattern.COMM_REDUCE, mixed=mixed, layout="reduce")(
        type(name, (), body)
    )


def _mean(data: te.Tensor, axis: list[int], keepdims: bool) -> te.Tensor:
    total = topi.sum(data, axis=axis, keepdims=keepdims)
    return _divided(total, _count(data, axis))


def _count(data: te.Tensor, axes: list[int]) -> tirx.Expr:
    count: Any = tirx.IntImm("int64", 1)
    for axis in axes:
        count = count * data.shape[axis]
    return count


def _divided(total: te.Tensor, count: tirx.Expr) -> te.Tensor:
    """Return a sum divided by a count; of nothing, that is NaN, and 0 for integers."""
    dtype = str(total.dtype)
    if not dtype.startswith(("float", "bfloat")):
        divisor = tirx.max(count, tirx.IntImm("int64", 1)).astype(dtype)
        return te.compute(total.shape, lambda *i: tirx.truncdiv(total(*i), divisor), name="mean")
    if isinstance(count, tirx.IntImm) and count.value == 0:
        return te.compute(total.shape, lambda *i: tirx.const(float("nan"), dtype), name="mean")
    return te.compute(total.shape, lambda *i: total(*i) / count.astype(dtype), name="mean")


def _wide(reduce: Callable[..., te.Tensor]) -> Callable[..., te.Tensor]:
    """Return a reduction that computes what has 16 bits in 32: sums of it leave its range and precision soon."""

    def reduce_wide(data: te.Tensor, axis: list[int], keepdims: bool) -> te.Tensor:
        dtype = str(data.dtype)
        if dtype not in ("float16", "bfloat16"):
            return reduce(data, axis=axis, keepdims=keepdims)
        return topi.cast(reduce(topi.cast(data, "float32"), axis=axis, keepdims=keepdims), dtype)

    return reduce_wide


def _logical(reduce: Callable[..., te.Tensor]) -> Callable[..., te.Tensor]:
    """Return a reduction of bool by way of uint8: TVM has no extremes of bool, and no vectors of it."""
    return lambda data, axis, keepdims: topi.cast(
        reduce(topi.cast(data, "uint8"), axis=axis, keepdims=keepdims), "bool"
    )


def _extreme(pick: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], is_largest: bool) -> Callable[..., te.Tensor]:
    """Return a reduction to an extreme that starts from infinity: TVM's own start from the largest finite number."""

    def start(dtype: str) -> tirx.Expr:
        if not str(dtype).startswith(("float", "bfloat")):
            return tirx.min_value(dtype) if is_largest else tirx.max_value(dtype)
        return -tirx.infinity(dtype) if is_largest else tirx.infinity(dtype)

    reducer = te.comm_reducer(pick, start, name="max" if is_largest else "min")

    def reduce(data: te.Tensor, axis: list[int], keepdims: bool) -> te.Tensor:
        rank = len(data.shape)
        over = {a: te.reduce_axis((0, data.shape[a]), name=f"k{a}") for a in axis}
        kept = [a for a in range(rank) if a not in over]
        shape = [1 if a in over else data.shape[a] for a in range(rank) if keepdims or a not in over]

        def element(*index: tirx.Expr) -> tirx.Expr:
            at = dict(enumerate(index)) if keepdims else dict(zip(kept, index, strict=True))
            return reducer(data(*[over[a] if a in over else at[a] for a in range(rank)]), axis=list(over.values()))

        return te.compute(shape, element, name="extreme")

    return reduce


_max, _min = _extreme(first_largest, True), _extreme(first_smallest, False)
EXTREMES: dict[str, Callable[..., te.Tensor]] = {"max": _max, "min": _min}
"""How a tensor, axes that ascend, and whether they stay with size 1, give the extremes over them, by the operator."""

_any, _all = _logical(_max), _logical(_min)
_reduction("sum", "Sum of the elements over axes.", _wide(topi.sum), _any, mixed="never")
_reduction("prod", "Product of the elements over axes.", _wide(topi.prod), _all)
_reduction("max", "Largest element over axes.", _wide(_max), _any, mixed="follow")
_reduction("min", "Smallest element over axes.", _wide(_min), _all, mixed="follow")
_reduction(
    "mean", "Mean of the elements over axes; of integers, rounded towards zero.", _wide(_mean), _all, mixed="never"
)
_reduction("all", "Whether all elements over axes are true.", _all, _all, _bool_relation)
_reduction("any", "Whether any element over axes is true.", _any, _any, _bool_relation)


@operator(
    "variance",
    "data",
    "mean",
    attrs=VarianceAttrs,
    level=4,
    pattern=OpPattern.COMM_REDUCE,
    parameters=Parameters(
        "data axis keepdims exclude unbiased with_mean", renamed={"with_mean": "mean"}, given={"with_mean": None}
    ),
    mixed="never",
    layout="reduce",
)
class Variance:
    """Mean squared distance from a mean over axes; unbiased divides by one less than the count."""

    @staticmethod
    def make(data: Expr, axis: Axes, exclude: bool, with_mean: Expr | None, **values: bool) -> Call:
        mean = build("mean", data, axis, True, exclude) if with_mean is None else with_mean
        return entry("variance").call(data, mean, axis=axis, exclude=exclude, **values)

    @staticmethod
    def relation(attrs: VarianceAttrs, data: Type, mean: Type) -> Type:
        source, center = require_tensor(data), require_tensor(mean, "mean")
        if not source.dtype.startswith(("float", "bfloat")):
            raise TypeCheckError(f"the input must be floating, not {source.dtype}; cast it")
        axes = reduced_axes(attrs, len(source.shape))
        kept = [1 if i in axes else d for i, d in enumerate(source.shape)]
        if center.dtype != source.dtype or not may_agree(center.shape, kept):
            wanted = TensorType(kept, source.dtype)
            raise TypeCheckError(f"mean is {center}; with the reduced dimensions kept it must be {wanted}")
        return _relation(attrs, data)

    @staticmethod
    def lower(context: LowerContext, attrs: VarianceAttrs, data: relax.Expr, mean: relax.Expr) -> relax.Expr:
        shape, center = context.shape(data), context.shape(mean)
        axes = reduced_axes(attrs, len(shape))
        for i, (have, want) in enumerate(zip(center, shape, strict=True)):
            message = f"variance: dimension {i} of mean is {{actual}}, expected {{expected}}"
            context.require_equal(have, 1 if i in axes else want, message)

        def compute(data: te.Tensor, mean: te.Tensor) -> te.Tensor:
            wide = "float64" if str(data.dtype) == "float64" else "float32"

            def squared(*i: tirx.Expr) -> tirx.Expr:
                center = mean(*[tirx.IntImm("int64", 0) if k in axes else v for k, v in enumerate(i)])
                difference = data(*i).astype(wide) - center.astype(wide)
                return difference * difference

            total = te.compute(data.shape, squared, name="squared")
            if axes:
                count = _count(data, axes) - (1 if attrs.unbiased else 0)
                total = _divided(topi.sum(total, axis=axes, keepdims=attrs.keepdims), count)
            return topi.cast(total, str(data.dtype))

        return context.te(compute, data, mean)


def std(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Call:
    """Return the standard deviation over axes."""
    return build("sqrt", build("variance", data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """Return the mean and the variance over axes."""
    kept = build("mean", data, axis, True, exclude)
    mean = kept if keepdims else build("mean", data, axis, keepdims, exclude)
    return TupleWrapper(Tuple([mean, build("variance", data, axis, keepdims, exclude, unbiased, with_mean=kept)]), 2)


def mean_std(data: Expr, axis: Axes = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """Return the mean and the standard deviation over axes."""
    mean, variance = mean_variance(data, axis, keepdims, exclude).astuple().fields
    return TupleWrapper(Tuple([mean, build("sqrt", variance)]), 2)


def logsumexp(data: Expr, axis: Axes = None, keepdims: bool = False) -> Call:
    """Return the logarithm of the sum of exponentials over axes, without overflow."""
    largest = build("max", data, axis, True)
    total = build("sum", build("exp", data - largest), axis, True)
    result = build("log", total) + largest
    return result if keepdims else build("squeeze", result, axis=axis)
