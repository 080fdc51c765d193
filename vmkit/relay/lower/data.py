"""Values of algebraic data types at run time: an array whose first element is the constructor's tag, then the fields.

The integer in front tells such a value from a tuple. Building and reading it are built-in functions of the VM.
"""

from __future__ import annotations

from tvm import relax
from tvm.ir import PrimType

from ..ir.adt import Constructor
from .context import LowerContext, Value

__all__ = ["construct", "read_field", "read_tag"]


def construct(context: LowerContext, constructor: Constructor, fields: list[Value]) -> relax.Expr:
    """Return a value of a constructor."""
    parts = [relax.prim_value(constructor.tag), *(context.materialize(f) for f in fields)]
    return context.emit(relax.op.call_pure_packed("vm.builtin.make_tuple", *parts, ty_args=[relax.AnyType()]))


def read_tag(context: LowerContext, value: Value) -> relax.Expr:
    """Return the tag of a value, an integer."""
    return context.read_field(value, 0, PrimType("int64"))


def read_field(context: LowerContext, value: relax.Expr, index: int) -> relax.Expr:
    """Return a field of a value."""
    return context.read_field(value, index + 1)
