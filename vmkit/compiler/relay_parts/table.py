"""Operators of Relax as Relay's, as far as both compute the same of the same types."""

from __future__ import annotations

from tvm import ir, relax

from ...relay.ir import Expr, TupleGetItem
from .elementwise import LOGICAL, NUMERIC
from .moves import MOVES
from .normalization import NORMALIZATIONS, REDUCTIONS
from .operands import Convert, NotOfRelayError, Operands, is_known, leaves, tensors_of
from .products import PRODUCTS
from .quantization import OF_BYTES, REALS_OF_BYTES
from .windows import WINDOWS

__all__ = ["CONVERTERS", "as_relay"]

_OF_FLOATS: dict[str, Convert] = {**NUMERIC, **NORMALIZATIONS, **REDUCTIONS, **PRODUCTS, **WINDOWS, **REALS_OF_BYTES}
"""What is Relay's for tensors of float32 alone."""

CONVERTERS: dict[str, Convert] = {**_OF_FLOATS, **LOGICAL, **MOVES, **OF_BYTES}
"""How calls become Relay's, by the operator."""


def as_relay(binding: relax.Binding, operands: Operands) -> Expr | None:
    """Return what a binding's value is in Relay, a tuple for several; None where Relay has no operator for it."""
    if not isinstance(binding, relax.VarBinding):
        return None
    value = binding.value
    if isinstance(value, relax.TupleGetItem):
        made = operands.values.get(value.tuple_value) or operands.fixed.get(value.tuple_value)
        return None if made is None else TupleGetItem(made, value.index)
    if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op):
        return None
    convert = CONVERTERS.get(value.op.name)
    if convert is None or not is_known(binding.var.ty) or (value.op.name in _OF_FLOATS and not _is_of_floats(binding)):
        return None
    before = len(operands.params)
    try:
        made = convert(value, operands.of(value.args), operands)
    except NotOfRelayError:
        made = None
    if made is None:
        operands.forget(before)
    return made


def _is_of_floats(binding: relax.VarBinding) -> bool:
    """Say whether all tensors that a call takes and gives are of float32."""
    types = [*tensors_of(binding.var.ty), *(each.ty for each in leaves(binding.value.args))]
    return all(str(ty.dtype) == "float32" for ty in types if isinstance(ty, relax.TensorType))
