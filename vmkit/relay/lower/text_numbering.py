"""How numbers may stand for texts in a program, by what its operators do with tensors of strings."""

from __future__ import annotations

from collections.abc import Iterable

from tvm.ir import Op

from ..ir.expr import Call, Function
from ..ir.types import FuncType, MapType, TensorType, TupleType, Type, type_parts
from ..ir.visit import post_order
from ..op.storage import moves_elements

__all__ = ["holds_strings", "text_numbering"]

_NUMBERS, _DIGESTS = "contrib_text_numbers", "contrib_to_stored"
# What looks into texts, or makes new ones.
_READING = ("contrib_string", "contrib_full_match")


def text_numbering(functions: Iterable[Function]) -> str | None:
    """Return one of :data:`vmkit.values.text_tables.NUMBERINGS`; None for functions without strings.

    What is not known to move elements alone compares them.
    """
    has_strings = is_read = is_known = is_compared = False
    for function in functions:
        for node in post_order(function):
            has_strings = has_strings or holds_strings(getattr(node, "checked_type_", None))
            if not isinstance(node, Call) or not isinstance(node.op, Op):
                continue
            name = node.op.name
            if name == _DIGESTS and holds_strings(node.args[0].checked_type_):
                return "digests"
            if name == _NUMBERS:
                is_known = True
            elif name.startswith(_READING):
                is_read = True
            elif not moves_elements(name) and any(holds_strings(a.checked_type_) for a in node.args):
                is_compared = True
        is_read = is_read or not _is_of_numbers(function.checked_type.ret_type)
    if not has_strings:
        return None
    if is_compared or (is_known and is_read):
        return "interned"
    return "known" if is_known else "placed"


def _is_of_numbers(ty: Type) -> bool:
    """Tell whether a type is one of tensors of numbers, and of tuples and maps of them, as far as is known."""
    if isinstance(ty, TupleType | MapType):
        return all(map(_is_of_numbers, type_parts(ty)))
    return isinstance(ty, TensorType) and ty.dtype != "string"


def holds_strings(ty: Type | None) -> bool:
    """Tell whether a value of a type may hold strings; calls of functions have types of their own."""
    if isinstance(ty, TensorType):
        return ty.dtype == "string"
    if isinstance(ty, FuncType):
        return False
    return ty is not None and any(holds_strings(part) for part in type_parts(ty))
