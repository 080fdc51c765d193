"""Operators that change a shape and not the elements, and those that read a shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING

import numpy as np
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.expr import Expr
from ..ir.types import Any as AnyDim
from ..ir.types import Dim, TensorType, Type
from .attrs import Attrs, Bool, Dims, DType, attrs_node, field
from .axis import checked_rank
from .elementwise import require_tensor
from .kernel import as_index, chosen, const, grid, loops
from .registry import OpPattern, entry, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["ShapeOf", "require_one_element", "reshape_value", "reshaped", "seen_through", "shape_text"]


def reshaped(shape: Sequence[Dim], newshape: Sequence[Dim], allowzero: bool = False) -> list[Dim]:
    """Return the shape that Relay's ``reshape`` gives.

    0 copies the dimension, or with `allowzero` is the size 0; -1 takes what is left (once), -2 copies all that remain,
    -3 joins two, -4 splits one into the two values that follow, one of which may be -1. An unknown dimension in
    `newshape` stays unknown.
    """
    source, result, inferred = list(shape), [], None
    values = list(newshape)
    at = 0

    def take() -> Dim:
        nonlocal at
        if at >= len(source):
            raise TypeCheckError(
                f"newshape {shape_text(newshape)} refers to more dimensions than {shape_text(shape)} has"
            )
        at += 1
        return source[at - 1]

    while values:
        value = values.pop(0)
        if not isinstance(value, int) or value > 0 or (value == 0 and allowzero):
            result.append(value)
            at += 1
        elif value == 0:
            result.append(take())
        elif value == -1:
            if inferred is not None:
                raise TypeCheckError(f"newshape {shape_text(newshape)} has more than one -1")
            inferred = len(result)
            result.append(-1)
            at += 1
        elif value == -2:
            result += source[at:]
            at = len(source)
        elif value == -3:
            result.append(dims.mul(take(), take()))
        elif value == -4:
            result += _split(take(), values, newshape)
        else:
            raise TypeCheckError(f"newshape {shape_text(newshape)} has {value}; -4 is the smallest special value")
    if inferred is not None:
        others = [d for i, d in enumerate(result) if i != inferred]
        if any(isinstance(d, int) and d == 0 for d in others):
            raise TypeCheckError(
                f"-1 in newshape {shape_text(newshape)} cannot be told: the other dimensions hold nothing"
            )
        result[inferred] = dims.quotient(shape, others)
    return result


def _split(whole: Dim, values: list[Dim], newshape: Sequence[Dim]) -> list[Dim]:
    if len(values) < 2:
        raise TypeCheckError(f"-4 in newshape {shape_text(newshape)} takes two values after it")
    first, second = values.pop(0), values.pop(0)
    if first == -1 and second == -1:
        raise TypeCheckError(f"-4 in newshape {shape_text(newshape)} may have one -1 after it, not two")
    if isinstance(first, int) and first == -1:
        return [_rest(whole, second, newshape), second]
    if isinstance(second, int) and second == -1:
        return [first, _rest(whole, first, newshape)]
    return [first, second]


def _rest(whole: Dim, part: Dim, newshape: Sequence[Dim]) -> Dim:
    if isinstance(part, int) and part == 0:
        raise TypeCheckError(f"-1 after -4 in newshape {shape_text(newshape)} cannot be told: the other size is 0")
    return dims.floordiv(whole, part)


def shape_text(shape: Sequence[Dim]) -> str:
    return f"({', '.join(str(d) for d in shape)})"


def reshape_value(context: LowerContext, data: relax.Expr, shape: Sequence[Dim]) -> relax.Expr:
    """Return a lowered tensor with another shape, checked at run time where the sizes are not known to agree."""
    have, want = dims.product(context.shape(data)), dims.product(shape)
    name = context.current.name if context.current is not None else "reshape"
    context.require_equal(want, have, f"{name}: the new shape holds {{actual}} elements, the input {{expected}}")
    target = relax.ShapeExpr([dims.as_expr(d) for d in shape])
    if isinstance(want, int) and not isinstance(have, int) and Analyzer().can_prove(have != want):
        data = context.hidden(data)  # the check above fails always; Relax would refuse the program
    if isinstance(want, int) and want == 0:
        return context.emit(relax.op.zeros(target, data.ty.dtype))  # Relax refuses a view of nothing
    return context.emit(relax.op.reshape(data, target))


def require_one_element(source: TensorType) -> None:
    """Raise TypeCheckError for a tensor that becomes a scalar and certainly does not have one element."""
    fixed = [d for d in source.shape if isinstance(d, int) and d != 1]
    if fixed:
        raise TypeCheckError(f"{source} cannot be a scalar: a dimension of it is {fixed[0]}")


@attrs_node("relay.attrs.ReshapeAttrs")
class ReshapeAttrs(Attrs):
    """Attributes of reshape."""

    newshape: Dims = field(doc="The shape, in which numbers below 1 have a meaning of their own.")
    allowzero: Bool = field(False, doc="Whether 0 is the size 0.")


@operator("reshape", "data", attrs=ReshapeAttrs, level=3, pattern=OpPattern.INJECTIVE, mixed="follow", moves=True)
class Reshape:
    """The same elements under another shape.

    newshape may hold 0 (copy the dimension), -1 (what is left), -2 (copy all that remain), -3 (join two), -4 (split
    one), and symbolic integers. With allowzero, 0 is the size 0. A newshape that is an expression is read at run time.
    """

    @staticmethod
    def make(data: Expr, newshape: Dim | Dims | Expr, allowzero: bool) -> Expr:
        if isinstance(newshape, Expr):
            return entry("dyn.reshape").call(data, newshape, newshape=[], allowzero=allowzero)
        return entry("reshape").call(data, newshape=newshape, allowzero=allowzero)

    @staticmethod
    def relation(attrs: ReshapeAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = _target(attrs, list(source.shape))
        have, want = dims.product(source.shape), dims.product(shape)
        if dims.equal(have, want) is False:
            raise TypeCheckError(f"the new shape {shape_text(shape)} holds {want} elements, the input {have}")
        return TensorType(shape, source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ReshapeAttrs, data: relax.Expr) -> relax.Expr:
        have = context.shape(data)
        values = list(attrs.newshape)
        unknown = [v for v in values if dims.is_any(v)]
        if unknown:
            # One unknown dimension is what the others leave; Relay meant the same.
            values = [-1 if dims.is_any(v) else v for v in values]
        asked = context.dims(values)
        return reshape_value(context, seen_through(context, data), reshaped(have, asked, attrs.allowzero))

    @staticmethod
    def on_arrays(attrs: ReshapeAttrs, data: np.ndarray) -> np.ndarray | None:
        shape = _target(attrs, list(data.shape))
        return data.reshape(shape) if all(isinstance(d, int) for d in shape) else None


def seen_through(context: LowerContext, data: relax.Expr) -> relax.Expr:
    """Return what a reshaped tensor was made from: a reshape of it is a reshape of that."""
    while isinstance(data, relax.Var):
        value = context.builder.lookup_binding(data)
        if not (isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.reshape"):
            break
        data = value.args[0]
    return data


def _target(attrs: ReshapeAttrs, shape: Sequence[Dim]) -> list[Dim]:
    return reshaped(shape, list(attrs.newshape), attrs.allowzero)


@operator("dyn.reshape", "data", "newshape", attrs=ReshapeAttrs, level=3, pattern=OpPattern.OPAQUE, mixed="follow")
class DynReshape:
    """The same elements under a shape that is read at run time.

    0 copies a dimension, -1 takes what is left, and -3 joins two; with allowzero, 0 is the size 0.
    """

    build = staticmethod(entry("reshape").builder)

    @staticmethod
    def relation(attrs: ReshapeAttrs, data: Type, newshape: Type) -> Type:
        wanted = require_tensor(newshape, "newshape")
        if len(wanted.shape) != 1 or not isinstance(wanted.shape[0], int):
            raise TypeCheckError(f"newshape must be a vector of known length, not {wanted}: it gives the rank")
        source = require_tensor(data)
        if wanted.shape[0] == 0:
            require_one_element(source)
        return TensorType([AnyDim()] * checked_rank(wanted.shape[0]), source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ReshapeAttrs, data: relax.Expr, newshape: relax.Expr) -> relax.Expr:
        have = context.shape(data)
        (rank,) = context.shape(newshape)
        allowzero = bool(attrs.allowzero)

        def body(outputs: list[tirx.Buffer], wanted: tirx.Buffer, sizes: list[tirx.Expr]) -> None:
            _resolve(outputs[0], outputs[1], wanted, sizes, allowzero)

        sizes = [dims.as_expr(d) for d in have]
        results = [([rank + 1], "int64"), ([2], "int64")]
        target = loops(context, results, body, newshape, sizes, name="reshape_target")[0]
        *shape, wrong = context.read_dims(target)
        message = "dyn.reshape: newshape holds sizes, 0, -1 or -3 (which joins two dimensions), and nothing else"
        context.require_equal(wrong, 0, message)
        return reshape_value(context, data, shape)


def _resolve(
    out: tirx.Buffer, state: tirx.Buffer, wanted: tirx.Buffer, sizes: list[tirx.Expr], allowzero: bool
) -> None:
    """Write the sizes that a new shape read at run time means, and last whether it means none."""
    rank = int(wanted.shape[0])
    position, known, wrong = const(0), const(1), const(rank)
    T.buffer_store(state, const(0), [position])
    T.buffer_store(state, const(1), [known])
    T.buffer_store(out, const(0), [wrong])
    with grid([const(rank)]) as (i,):
        value, at = T.Bind(as_index(wanted[i])), T.Bind(state[position])
        is_join = value == -3
        with T.If(tirx.any(value == -2, value < -3, tirx.all(is_join, at + 1 >= len(sizes)))), T.Then():
            T.buffer_store(out, const(1), [wrong])
        first = _size_at(sizes, at)
        copied = const(0) if allowzero else first
        T.buffer_store(out, tirx.Select(is_join, first * _size_at(sizes, at + 1), value), [i])
        with T.If(value == 0), T.Then():
            T.buffer_store(out, copied, [i])
        with T.If(value != -1), T.Then():
            T.buffer_store(state, state[known] * out[i], [known])
        T.buffer_store(state, at + tirx.Select(is_join, const(2), const(1)), [position])
    rest = T.Bind(tirx.floordiv(reduce(mul, sizes, const(1)), tirx.max(state[known], const(1))))
    with grid([const(rank)]) as (i,):
        T.buffer_store(out, tirx.max(tirx.Select(out[i] == -1, rest, out[i]), const(0)), [i])


def _size_at(sizes: list[tirx.Expr], position: tirx.Expr) -> tirx.Expr:
    """Return the size of a dimension; 0 beyond the last."""
    return chosen(position, [*sizes, const(0)])


@attrs_node("relay.attrs.ShapeOfAttrs")
class ShapeOfAttrs(Attrs):
    """Attributes of shape_of."""

    dtype: DType = "int32"


@operator("shape_of", "data", attrs=ShapeOfAttrs, level=10, pattern=OpPattern.OPAQUE, mixed="follow")
class ShapeOf:
    """The shape of the input as a vector."""

    @staticmethod
    def relation(attrs: ShapeOfAttrs, data: Type) -> Type:
        return TensorType([len(require_tensor(data).shape)], attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ShapeOfAttrs, data: relax.Expr) -> relax.Expr:
        shape = [dims.as_expr(d) for d in context.shape(data)]
        if not shape:
            return context.emit(relax.op.zeros(relax.ShapeExpr([0]), attrs.dtype))

        # The kernel takes the tensor for its shape alone; it reads no element.
        def compute(tensor: te.Tensor, sizes: list[tirx.Expr]) -> te.Tensor:
            return te.compute((len(sizes),), lambda i: chosen(i, sizes).astype(attrs.dtype), name="shape_of")

        return context.te(compute, data, shape)
