"""Functions of numbers, and what runs along an axis, for which Relax has no operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...relay.op.kernel import grid
from ...relay.op.ordering import is_nan, larger, smaller
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["FUNCTIONS", "hypotenuse", "mapped", "mapped_tensors"]

_Function = Callable[..., tirx.Expr]


def mapped(importer: Importing, node: fx.Node, *, function: _Function, wide: str = "") -> relax.Expr:
    """Return a function of every element of one tensor, or of elements beside each other of two.

    It is computed in `wide`, by default in float32 where the elements are no float64.
    """
    result = dtype_of(node)
    given = [importer.env[each] for each in arguments_of(node) if each in importer.env]  # without numbers
    dtype = str(given[0].ty.dtype) if result == "bool" else result
    name = str(node.target).split(".")[1]
    return mapped_tensors(importer, given, dtype, function, name=name, wide=wide, is_predicate=result == "bool")


def mapped_tensors(
    importer: Importing,
    given: Sequence[relax.Expr],
    dtype: str,
    function: _Function,
    *,
    name: str,
    wide: str = "",
    is_predicate: bool = False,
) -> relax.Expr:
    """Return a function of the elements beside each other of tensors, which are broadcast, in a data type."""
    emit, op = importer.block_builder.emit, relax.op
    tensors = [cast_to(importer, each, dtype) for each in given]
    if len(tensors) > 1:
        # An elementwise operator of Relax finds the sizes of both together.
        shape = emit(op.add(*tensors)).ty.shape
        tensors = [emit(op.broadcast_to(each, shape)) for each in tensors]
    computed = wide or ("float64" if dtype == "float64" else "float32")

    def kernel(*given: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Expr) -> tirx.Expr:
            value = function(*(x(*at).astype(computed) for x in given))
            return value if is_predicate else value.astype(dtype)

        return te.compute(given[0].shape, element, name="function", tag="injective")

    return importer.block_builder.emit_te(kernel, *tensors, primfunc_name_hint=name)


def hypotenuse(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the square root of the sum of squares, which itself may be larger than any number."""
    a, b = tirx.abs(a), tirx.abs(b)
    most, least = larger(a, b), smaller(a, b)
    zero, one = tirx.const(0, a.ty.dtype), tirx.const(1, a.ty.dtype)
    ratio = least / tirx.Select(most > zero, most, one)
    endless = tirx.const(float("inf"), a.ty.dtype)
    is_endless = tirx.any(tirx.isinf(a), tirx.isinf(b))
    return tirx.Select(is_endless, endless, tirx.Select(most > zero, most * tirx.sqrt(one + ratio * ratio), most))


def _has_sign(x: tirx.Expr) -> tirx.Expr:
    """Say whether a number is below 0, or the 0 that is."""
    bits = "int64" if str(x.ty.dtype) == "float64" else "int32"
    return tirx.reinterpret(bits, x) < tirx.const(0, bits)


def _number_of(a: tirx.Expr, b: tirx.Expr, choose: _Function) -> tirx.Expr:
    """Return one of two numbers, or that which is one where the other is NaN."""
    return tirx.Select(tirx.isnan(a), b, tirx.Select(tirx.isnan(b), a, choose(a, b)))


def _log_sum(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
    """Return the logarithm of the sum of two numbers whose logarithms are given."""
    most, least = larger(a, b), smaller(a, b)
    return tirx.Select(tirx.isinf(most), most, most + tirx.log1p(tirx.exp(least - most)))


def _complement(x: tirx.Expr) -> tirx.Expr:
    """Return 1 - erf(x), by a continued fraction where little is left of it (Lentz, from the last term back)."""
    dtype = x.ty.dtype
    size = tirx.abs(x)
    steps = 40 if str(dtype) == "float64" else 24
    value = size
    for k in range(steps, 0, -1):
        value = size + tirx.const(k / 2, dtype) / value
    far = tirx.exp(-size * size) / (value * tirx.const(math.sqrt(math.pi), dtype))
    one, two = tirx.const(1, dtype), tirx.const(2, dtype)
    return tirx.Select(size < two, one - tirx.erf(x), tirx.Select(x > 0, far, two - far))


def _exponential_unit(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return numbers above 0 times a scale, and others as an exponential that comes near a bound."""
    _, bound, scale, steepness = arguments_of(node)

    def function(x: tirx.Expr) -> tirx.Expr:
        one, most, factor, steep = (tirx.const(float(v), x.ty.dtype) for v in (1, bound, scale, steepness))
        return tirx.Select(x > 0, factor * x, factor * most * (tirx.exp(tirx.min(x, 0 * one) * steep) - one))

    return mapped(importer, node, function=function)


def _running(importer: Importing, node: fx.Node, *, is_better: _Function) -> relax.Expr:
    """Return the best element up to each along an axis, and where the last of equal ones stands."""
    data, axis = arguments_of(node)
    value = importer.env[data]
    shape, dtype, at = list(value.ty.shape), str(value.ty.dtype), axis % max(value.ty.ndim, 1)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        best, place = outputs
        with grid(list(x.shape)) as i:
            before = tuple(v - 1 if k == at else v for k, v in enumerate(i))
            new, is_first = x[tuple(i)], i[at] == 0
            takes = tirx.any(is_first, is_better(new, best[before]), is_nan(new))
            T.buffer_store(best, tirx.if_then_else(takes, new, best[before]), i)
            T.buffer_store(place, tirx.if_then_else(takes, i[at].astype("int64"), place[before]), i)

    results = [(shape, dtype), (shape, "int64")]
    best, place = looped(importer, results, body, value, name="running")
    return importer.block_builder.emit(relax.Tuple([best, place]))


def _running_log_sum(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the logarithm of the sum of exponentials up to each element along an axis."""
    data, axis = arguments_of(node)
    value = importer.env[data]
    shape, dtype, at = list(value.ty.shape), str(value.ty.dtype), axis % max(value.ty.ndim, 1)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        (out,) = outputs
        with grid(list(x.shape)) as i:
            before = tuple(v - 1 if k == at else v for k, v in enumerate(i))
            new = x[tuple(i)]
            T.buffer_store(out, tirx.if_then_else(i[at] == 0, new, _log_sum(out[before], new)), i)

    return cast("relax.Expr", looped(importer, [(shape, dtype)], body, value, name="log_sum"))


def _at_rank(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the k-th smallest elements along an axis, and where each stands."""
    data, k, axis, keepdims = arguments_of(node)
    emit, op, value = importer.block_builder.emit, relax.op, importer.env[data]
    order = emit(op.argsort(value, axis=axis, descending=False, dtype="int64"))
    at = emit(op.strided_slice(order, [axis], [k - 1], [k]))
    found = emit(op.gather_elements(value, at, axis=axis))
    kept = (found, at) if keepdims else tuple(emit(op.squeeze(each, [axis])) for each in (found, at))
    return emit(relax.Tuple(list(kept)))


FUNCTIONS: dict[str, Converter] = {
    "copysign.Tensor": partial(mapped, function=lambda a, b: tirx.Select(_has_sign(b), -tirx.abs(a), tirx.abs(a))),
    "cummax.default": partial(_running, is_better=lambda new, best: new >= best),
    "cummin.default": partial(_running, is_better=lambda new, best: new <= best),
    "elu.default": _exponential_unit,
    "erfc.default": partial(mapped, function=_complement),
    "exp2.default": partial(mapped, function=lambda x: tirx.exp2(x)),
    "fmax.default": partial(mapped, function=partial(_number_of, choose=tirx.max)),
    "fmin.default": partial(mapped, function=partial(_number_of, choose=tirx.min)),
    "hypot.default": partial(mapped, function=hypotenuse),
    "kthvalue.default": _at_rank,
    "logaddexp.default": partial(mapped, function=_log_sum),
    "ldexp.Tensor": partial(mapped, function=lambda a, b: a * tirx.exp2(b)),
    "logcumsumexp.default": _running_log_sum,
    "signbit.default": partial(mapped, function=_has_sign),
}
"""The converters, by the names of PyTorch's operators."""
