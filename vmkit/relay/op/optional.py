"""Optional values: at run time, lists of at most one element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm import relax, te

from ...errors import TypeCheckError
from ..ir.types import OptionalType, Type, UnrankedType, scalar_type
from .attrs import Attrs, Bool, DType, attrs_node
from .registry import operator
from .sequence import joined_type, length_of, list_of

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value


def _require_optional(ty: Type) -> OptionalType:
    if not isinstance(ty, OptionalType):
        raise TypeCheckError(f"the input must be an optional value, not {ty}")
    return ty


@operator("optional.some", "value", level=10, pure=False, effect=True)
class OptionalSome:
    """The optional value that holds the input."""

    @staticmethod
    def relation(attrs: None, value: Type) -> Type:
        return OptionalType(value)

    @staticmethod
    def lower(context: LowerContext, attrs: None, value: Value) -> relax.Expr:
        return list_of(context, [value])


@attrs_node("relay.attrs.OptionalNoneAttrs")
class OptionalNoneAttrs(Attrs):
    """Attributes of optional.none: the data type of the tensors, and whether a sequence of them is left out."""

    dtype: DType
    is_sequence: Bool = False


@operator("optional.none", attrs=OptionalNoneAttrs, level=10, pure=False, effect=True)
class OptionalNone:
    """The optional value that holds nothing."""

    @staticmethod
    def relation(attrs: OptionalNoneAttrs) -> Type:
        return OptionalType(joined_type([], attrs.dtype) if attrs.is_sequence else UnrankedType(attrs.dtype, True))

    @staticmethod
    def lower(context: LowerContext, attrs: OptionalNoneAttrs) -> relax.Expr:
        return list_of(context, [])


@operator("optional.has", "value", level=10)
class OptionalHas:
    """Whether an optional value holds something, a boolean scalar."""

    @staticmethod
    def relation(attrs: None, value: Type) -> Type:
        _require_optional(value)
        return scalar_type("bool")

    @staticmethod
    def lower(context: LowerContext, attrs: None, value: relax.Expr) -> relax.Expr:
        count = length_of(context, value)
        return context.te(lambda n: te.compute((), lambda: n[0] > 0, name="has"), [count])


@operator("optional.get", "value", level=10)
class OptionalGet:
    """What an optional value holds; the run fails where that is nothing."""

    @staticmethod
    def relation(attrs: None, value: Type) -> Type:
        element = _require_optional(value).element
        if isinstance(element, UnrankedType) and element.is_empty:
            raise TypeCheckError(f"{value} cannot be read: it holds nothing")
        return element

    @staticmethod
    def lower(context: LowerContext, attrs: None, value: relax.Expr) -> relax.Expr:
        context.require_equal(length_of(context, value), 1, "OptionalGetElement: the optional value holds nothing")
        zero = relax.prim_value(0)
        return context.emit(relax.op.call_pure_packed("ffi.ListGetItem", value, zero, ty_args=[relax.AnyType()]))
