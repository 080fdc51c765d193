"""Sequences: lists of values of one type, whose length is known only at run time.

At run time a sequence is a list of TVM's runtime, which its own functions build and read: a program needs no Python
for it. No operator changes a sequence that it is given, except with ``in_place``, which the compiler sets where nobody
else holds the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from tvm import relax, te, tirx
from tvm.ir import PrimType

from ...errors import TypeCheckError
from ..ir import dims
from ..ir.type_solver import TypeSolver
from ..ir.types import SequenceType, Type, UnrankedType, scalar_type
from .attrs import Attrs, Bool, DType, attrs_node
from .elementwise import require_tensor
from .registry import operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext, Value

__all__ = ["call_in_order", "joined_type", "length_of", "list_of"]


def require_sequence(ty: Type, name: str = "sequence") -> SequenceType:
    """Return the type of a sequence; TypeCheckError for any other."""
    if not isinstance(ty, SequenceType):
        raise TypeCheckError(f"{name} must be a sequence, not {ty}")
    return ty


def joined_type(types: Sequence[Type], dtype: str) -> SequenceType:
    """Return the type of a sequence of elements of some types; `dtype` is that of the tensors of an empty one."""
    return reduce(_joined, types, SequenceType(UnrankedType(dtype, is_empty=True)))


def _joined(sequence: SequenceType, element: Type) -> SequenceType:
    joined = TypeSolver().unify(sequence, SequenceType(element), join=True)
    assert isinstance(joined, SequenceType)
    return joined


# -- what lowerings share


def call_in_order(context: LowerContext, name: str, *args: relax.Expr) -> relax.Expr:
    """Call a function of the runtime that changes what it is given, or makes what will be changed."""
    return context.emit(relax.Call(relax.ExternFunc(name), list(args), ty_args=[relax.AnyType()]))


def list_of(context: LowerContext, values: Sequence[Value]) -> relax.Expr:
    """Return a new list of some lowered values."""
    return call_in_order(context, "ffi.List", *[_kept(context, v) for v in values])


def _kept(context: LowerContext, value: Value) -> relax.Expr:
    """Return a value in a form of which the memory planner knows that it lives on."""
    operand = context.emit(context.materialize(value))
    return context.emit(relax.op.call_pure_packed("vm.builtin.copy", operand, ty_args=[operand.ty]))


def length_of(context: LowerContext, sequence: relax.Expr) -> tirx.Expr:
    """Return the length of a list as a symbolic integer."""
    count = context.emit(relax.op.call_pure_packed("ffi.ListSize", sequence, ty_args=[PrimType("int64")]))
    shape = context.emit(relax.op.call_pure_packed("ffi.Shape", count, ty_args=[relax.ShapeType(ndim=1)]))
    length = context.symbol("length")
    context.builder.match_cast(shape, relax.ShapeType([length]))
    return length


def _position(context: LowerContext, index: relax.Expr, length: tirx.Expr, slots: tirx.Expr, what: str) -> relax.Expr:
    """Return an index that may count from the end, checked to be one of `slots` places, as an integer of the VM."""

    def compute(index: te.Tensor, sizes: list[tirx.Expr]) -> te.Tensor:
        given = index(*[0] * len(index.shape)).astype("int64")
        length, slots = sizes
        wrapped = tirx.Select(given < 0, given + length, given)
        is_place = tirx.all(wrapped >= 0, wrapped < slots)
        zero = tirx.IntImm("int64", 0)
        return te.compute(
            (2,), lambda i: tirx.Select(i == 0, tirx.Select(is_place, wrapped, zero), is_place.astype("int64"))
        )

    at, is_place = context.read_dims(context.te(compute, index, [dims.as_expr(length), dims.as_expr(slots)]))
    context.require_equal(is_place, 1, f"{what}: the position lies outside the sequence")
    return relax.prim_value(at)


def _copied(context: LowerContext, sequence: relax.Expr) -> relax.Expr:
    """Return a new list of the same elements."""
    made = list_of(context, [])
    zero = relax.prim_value(0)
    call_in_order(context, "ffi.ListReplaceSlice", made, zero, zero, sequence)
    return made


def _require_index(index: Type) -> None:
    tensor = require_tensor(index, "index")
    if not tensor.dtype.startswith("int") or any(d != 1 for d in tensor.shape):
        raise TypeCheckError(f"index must be one integer, not {index}")


# -- operators


@attrs_node("relay.attrs.SequenceConstructAttrs")
class SequenceConstructAttrs(Attrs):
    """Attributes of sequence.construct: the data type of the tensors, for a sequence that has none."""

    dtype: DType = "float32"


@operator("sequence.construct", "*elements", attrs=SequenceConstructAttrs, level=10, pure=False, effect=True)
class SequenceConstruct:
    """The sequence of the inputs."""

    @staticmethod
    def relation(attrs: SequenceConstructAttrs, *elements: Type) -> Type:
        return joined_type(elements, attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SequenceConstructAttrs, *elements: Value) -> relax.Expr:
        return list_of(context, elements)


@operator("sequence.length", "sequence", level=10)
class SequenceLength:
    """The number of elements, an int64."""

    @staticmethod
    def relation(attrs: None, sequence: Type) -> Type:
        require_sequence(sequence)
        return scalar_type("int64")

    @staticmethod
    def lower(context: LowerContext, attrs: None, sequence: relax.Expr) -> relax.Expr:
        length = length_of(context, sequence)
        return context.te(lambda n: te.compute((), lambda: n[0], name="length"), [length])


@operator("sequence.at", "sequence", "index", level=10)
class SequenceAt:
    """The element at an index, which counts from the end if it is negative."""

    @staticmethod
    def relation(attrs: None, sequence: Type, index: Type) -> Type:
        _require_index(index)
        element = require_sequence(sequence).element
        if isinstance(element, UnrankedType) and element.is_empty:
            raise TypeCheckError(f"no element can be read of {sequence}: the sequence is empty")
        return element

    @staticmethod
    def lower(context: LowerContext, attrs: None, sequence: relax.Expr, index: relax.Expr) -> relax.Expr:
        length = length_of(context, sequence)
        at = _position(context, index, length, length, "SequenceAt")
        return context.emit(relax.op.call_pure_packed("ffi.ListGetItem", sequence, at, ty_args=[relax.AnyType()]))


@attrs_node("relay.attrs.SequenceInsertAttrs")
class SequenceInsertAttrs(Attrs):
    """Attributes of sequence.append: whether the sequence itself may be changed."""

    in_place: Bool = False


@operator("sequence.append", "sequence", "element", attrs=SequenceInsertAttrs, level=10, pure=False, effect=True)
class SequenceAppend:
    """The sequence with one more element at its end."""

    @staticmethod
    def relation(attrs: SequenceInsertAttrs, sequence: Type, element: Type) -> Type:
        return _joined(require_sequence(sequence), element)

    @staticmethod
    def lower(context: LowerContext, attrs: SequenceInsertAttrs, sequence: relax.Expr, element: Value) -> relax.Expr:
        made = sequence if attrs.in_place else _copied(context, sequence)
        call_in_order(context, "ffi.ListAppend", made, _kept(context, element))
        return made


@operator("sequence.insert", "sequence", "element", "index", level=10, pure=False, effect=True)
class SequenceInsert:
    """The sequence with one more element before the one at an index; the length is an index too."""

    @staticmethod
    def relation(attrs: None, sequence: Type, element: Type, index: Type) -> Type:
        _require_index(index)
        return _joined(require_sequence(sequence), element)

    @staticmethod
    def lower(
        context: LowerContext, attrs: None, sequence: relax.Expr, element: Value, index: relax.Expr
    ) -> relax.Expr:
        length = length_of(context, sequence)
        at = _position(context, index, length, length + 1, "SequenceInsert")
        made = _copied(context, sequence)
        call_in_order(context, "ffi.ListInsert", made, at, _kept(context, element))
        return made


@operator("sequence.erase", "sequence", "index", level=10, pure=False, effect=True)
class SequenceErase:
    """The sequence without the element at an index."""

    @staticmethod
    def relation(attrs: None, sequence: Type, index: Type) -> Type:
        _require_index(index)
        return require_sequence(sequence)

    @staticmethod
    def lower(context: LowerContext, attrs: None, sequence: relax.Expr, index: relax.Expr) -> relax.Expr:
        length = length_of(context, sequence)
        at = _position(context, index, length, length, "SequenceErase")
        made = _copied(context, sequence)
        call_in_order(context, "ffi.ListErase", made, at)
        return made


@operator("sequence.copy", "sequence", level=10, pure=False, effect=True)
class SequenceCopy:
    """A sequence of the same elements that nobody else holds."""

    @staticmethod
    def relation(attrs: None, sequence: Type) -> Type:
        return require_sequence(sequence)

    @staticmethod
    def lower(context: LowerContext, attrs: None, sequence: relax.Expr) -> relax.Expr:
        return _copied(context, sequence)
