"""Calls of functions that another code generator has compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import tvm
from tvm import relax

from ..._dataclasses import dataclass
from ...errors import CompileError
from ...values.element_types import stored_type
from ..ir.expr import Call, Function
from ..ir.types import TensorType, TupleType, Type, type_text
from .context import Value

if TYPE_CHECKING:
    from .function import FunctionLowering

__all__ = ["External", "call_external"]


@dataclass(frozen=True, eq=False)
class External:
    """How a function of another code generator is called.

    Attributes
    ----------
    symbol : str
        The packed function. It takes the texts, the tensors of the arguments (those of a tuple one by one), the
        constants, and the tensors that the results go into.
    function : Function
        What it computes, in operators that can be compiled: sizes that are not known come from it.
    texts : tuple of str
        What the packed function takes first.
    constants : tuple of Tensor
        What it takes after the arguments.
    """

    symbol: str
    function: Function
    texts: tuple[str, ...] = ()
    constants: tuple[Any, ...] = ()


def call_external(lowering: FunctionLowering, external: External, call: Call) -> Value:
    """Return the value of a call of a function that another code generator has compiled."""
    context = lowering.context
    args = [lowering.visit(arg) for arg in call.args]
    operands: list[Any] = [tvm.ir.StringImm(text) for text in external.texts]
    for value, arg in zip(args, call.args, strict=True):
        operands += _tensors(lowering, value, arg.checked_type)
    operands += [relax.const(constant) for constant in external.constants]
    result = call.checked_type
    types = _sized(lowering, external, args, result)
    made = context.emit(relax.op.call_dps_packed(external.symbol, relax.Tuple(operands), types))
    values = [made] if len(types) == 1 else [context.emit(relax.TupleGetItem(made, i)) for i in range(len(types))]
    return context.short(_nested(iter(values), result))


def _tensors(lowering: FunctionLowering, value: Value, ty: Type) -> list[relax.Expr]:
    if isinstance(ty, TupleType):
        fields = lowering.context.fields(value, len(ty.fields))
        return [leaf for v, t in zip(fields, ty.fields, strict=True) for leaf in _tensors(lowering, v, t)]
    if not isinstance(ty, TensorType):
        raise CompileError(f"a function for another code generator takes and gives tensors, not {type_text(ty)}")
    return [lowering.context.materialize(value)]


def _sized(lowering: FunctionLowering, external: External, args: list[Value], ty: Type) -> list[relax.Type]:
    """Return the types of the results, every dimension named."""
    types = list(_leaves(ty))
    if all(isinstance(d, int) for leaf in types for d in leaf.shape):
        return [relax.TensorType(list(leaf.shape), stored_type(leaf.dtype)) for leaf in types]
    # What the function computes is lowered, too: as nothing uses it but sizes, only those are left of it.
    lowering.scopes.append(dict(zip(external.function.params, args, strict=True)))
    value = lowering.visit(external.function.body)
    lowering.scopes.pop()
    tensors = [lowering.context.pin(leaf) for leaf in _tensors(lowering, value, ty)]
    return [relax.TensorType(tensor.ty.shape, tensor.ty.dtype) for tensor in tensors]


def _leaves(ty: Type) -> Iterator[TensorType]:
    if isinstance(ty, TupleType):
        for each in ty.fields:
            yield from _leaves(each)
    elif isinstance(ty, TensorType):
        yield ty
    else:
        raise CompileError(f"a function for another code generator takes and gives tensors, not {type_text(ty)}")


def _nested(values: Iterator[relax.Expr], ty: Type) -> Value:
    return tuple(_nested(values, field) for field in ty.fields) if isinstance(ty, TupleType) else next(values)
