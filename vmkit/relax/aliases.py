"""Which bindings of a Relax program only make memory or give it another name, and whose memory a tensor is."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import ir, relax

__all__ = ["STORAGE", "TENSOR", "home_of", "is_call", "is_silent"]

STORAGE, TENSOR, _RESHAPE = "relax.memory.alloc_storage", "relax.memory.alloc_tensor", "relax.reshape"
_MEMORY = (STORAGE, TENSOR, _RESHAPE)


def is_silent(binding: relax.Binding) -> bool:
    """Say whether a binding only makes or names memory, so that it may as well stand before the group that it is in."""
    if not isinstance(binding, relax.VarBinding):
        return False
    value = binding.value
    if isinstance(value, relax.Tuple | relax.TupleGetItem | relax.ShapeExpr):
        return True
    if isinstance(value, ir.Var):
        return isinstance(value.ty, relax.TensorType)
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name in _MEMORY


def is_call(value: relax.Expr | None, name: str) -> bool:
    """Say whether a value is the call of an operator."""
    return isinstance(value, ir.Call) and isinstance(value.op, ir.Op) and value.op.name == name


def home_of(tensor: relax.Expr, memory: Mapping[relax.Expr, relax.Expr]) -> relax.Expr:
    """Return the tensor of known shape, the furthest back in the program, that has the memory of another."""
    source = _source(memory.get(tensor), memory)
    ty = getattr(source, "ty", None)
    is_known = isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr)
    return home_of(source, memory) if is_known and source is not None else tensor


def _source(value: relax.Expr | None, memory: Mapping[relax.Expr, relax.Expr]) -> relax.Expr | None:
    """Return what a value is another name or a view of; None for one that is neither."""
    if isinstance(value, relax.TupleGetItem):
        whole = memory.get(value.tuple_value)
        return whole.fields[value.index] if isinstance(whole, relax.Tuple) else None
    if isinstance(value, ir.Call):
        return value.args[0] if is_call(value, _RESHAPE) else None
    return value if isinstance(value, ir.Var) else None
