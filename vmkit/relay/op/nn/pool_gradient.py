"""Gradients of the pools over two spatial axes with regard to their input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import IncompleteType, Type
from ..elementwise import require_tensor
from ..kernel import inside
from ..registry import OpPattern, Parameters, operator
from .pool_attrs import AvgPoolAttrs, MaxPoolAttrs, PoolAttrs
from .pooling import Pool, pool_type, quotient
from .precision import accumulator, as_dtype
from .window import require_fits

if TYPE_CHECKING:
    from ...lower.context import LowerContext

    # What the window at an index of the result gives to the element at a place of its kernel.
    Share = Callable[[Sequence[tirx.Expr], Mapping[str, tirx.Expr]], tirx.Expr]

__all__: list[str] = []


def _result_type(attrs: PoolAttrs, out_grad: Type, data: Type) -> Type:
    source, grad, pooled = require_tensor(data, "data"), require_tensor(out_grad, "out_grad"), pool_type(attrs, data)
    if len(grad.shape) != len(pooled.shape) or any(
        dims.equal(a, b) is False for a, b in zip(grad.shape, pooled.shape, strict=True)
    ):
        raise TypeCheckError(f"out_grad must have the shape of the pool's result, {pooled}, not {grad}")
    return source


def _infer_gradient(attrs: PoolAttrs, out_grad: Type, data: Type) -> dict[int, Type]:
    return {} if isinstance(data, IncompleteType) else {0: pool_type(attrs, data)}


def _lower(context: LowerContext, attrs: PoolAttrs, out_grad: relax.Expr, data: relax.Expr) -> relax.Expr:
    shape = context.shape(data)
    pool = Pool.of(attrs, shape)
    require_fits(context, pool.sizes, pool.padding, pool.windows)
    for axis, (have, want) in enumerate(zip(context.shape(out_grad), pool.shape(shape), strict=True)):
        message = f"dimension {axis} of out_grad is {{actual}}, but that of the pool's result {{expected}}"
        context.require_equal(have, want, f"{context.operator}: {message}")
    if isinstance(attrs, AvgPoolAttrs):
        return context.te(lambda grad, x: _of_mean(attrs, grad, x), out_grad, data)
    return context.te(lambda grad, x: _of_largest(attrs, grad, x), out_grad, data)


def _spread(pool: Pool, data: te.Tensor, share: Share) -> te.Tensor:
    """Return for every element of the data the sum of `share` over the windows that it lies in.

    ``share(index, kernel)`` is what the window at an index of the result gives to the element at a place of its kernel.
    """
    reduced, dtype = pool.reduced(), str(data.dtype)
    sums = accumulator(dtype)

    def element(*index: tirx.Expr) -> tirx.Expr:
        at, tests = dict(zip(pool.axes, index, strict=True)), []
        for i, a in enumerate(pool.spatial):
            first, stride = at[a] + pool.padding[i] - reduced[a] * pool.dilation[i], pool.strides[i]
            window = tirx.floordiv(first, stride)
            tests += [tirx.floormod(first, stride) == 0, window >= 0, window < dims.as_expr(pool.result[i])]
            at[a] = inside(window, dims.as_expr(pool.result[i]))
        value = share([at[a] for a in pool.axes], reduced).astype(sums)
        return te.sum(tirx.if_then_else(tirx.all(*tests), value, tirx.const(0, sums)), axis=list(reduced.values()))

    return as_dtype(te.compute(data.shape, element, name="pool_grad"), dtype)


def _of_largest(attrs: PoolAttrs, grad: te.Tensor, data: te.Tensor) -> te.Tensor:
    """Return the gradient of the largest element, which all goes to the first of the largest ones of a window."""
    shape, dtype = [dims.simplify(d) for d in data.shape], str(data.dtype)
    pool = Pool.of(attrs, shape)
    padded, reduced = pool.padded(data, tirx.min_value(dtype)), pool.reduced()

    def better(a: tuple[tirx.Expr, ...], b: tuple[tirx.Expr, ...]) -> tuple[tirx.Expr, ...]:
        is_first = tirx.any(a[1] > b[1], tirx.all(a[1] == b[1], a[0] < b[0]))
        return tuple(tirx.Select(is_first, x, y) for x, y in zip(a, b, strict=True))

    largest = te.comm_reducer(
        better, lambda *types: (tirx.IntImm("int32", 2**31 - 1), tirx.min_value(types[1])), name="first_largest"
    )

    def element(*index: tirx.Expr) -> tirx.Expr:
        return largest((_place(pool, reduced), padded(*pool.read_at(index, reduced))), axis=list(reduced.values()))

    places, _ = te.compute([dims.as_expr(d) for d in pool.shape(shape)], element, name="largest_place")

    def share(index: Sequence[tirx.Expr], kernel: Mapping[str, tirx.Expr]) -> tirx.Expr:
        return tirx.Select(places(*index) == _place(pool, kernel), grad(*index), tirx.const(0, grad.dtype))

    return _spread(pool, data, share)


def _place(pool: Pool, kernel: Mapping[str, tirx.Expr]) -> tirx.Expr:
    """Return the number of an element of the kernel, counted row by row."""
    return (kernel["H"] * pool.kernel[1] + kernel["W"]).astype("int32")


def _of_mean(attrs: AvgPoolAttrs, grad: te.Tensor, data: te.Tensor) -> te.Tensor:
    """Return the gradient of the mean, of which every element that counts gets its part."""
    pool = Pool.of(attrs, [dims.simplify(d) for d in data.shape])
    dtype = str(data.dtype)

    def share(index: Sequence[tirx.Expr], kernel: Mapping[str, tirx.Expr]) -> tirx.Expr:
        wide = grad(*index).astype(accumulator(dtype))
        return quotient(wide, pool.count(index, attrs.count_include_pad), accumulator(dtype))

    return _spread(pool, data, share)


class _Gradient:
    infer_inputs = staticmethod(_infer_gradient)
    relation = staticmethod(_result_type)
    lower = staticmethod(_lower)


@operator(
    "nn.max_pool2d_grad",
    "out_grad",
    "data",
    attrs=MaxPoolAttrs.over(2),
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("out_grad data pool_size strides padding layout out_layout ceil_mode"),
)
class MaxPoolGradient(_Gradient):
    """The gradient of max_pool2d; of equal largest elements the first of a window has it."""


@operator(
    "nn.avg_pool2d_grad",
    "out_grad",
    "data",
    attrs=AvgPoolAttrs.over(2),
    level=2,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    parameters=Parameters("out_grad data pool_size strides padding layout out_layout ceil_mode count_include_pad"),
)
class AvgPoolGradient(_Gradient):
    """The gradient of avg_pool2d."""
