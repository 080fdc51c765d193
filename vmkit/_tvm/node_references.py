"""Nodes of IR that Python defines, and who counts the references to them: what tvm-ffi says of neither in public."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi
from tvm_ffi.libinfo import find_libtvm_ffi

__all__ = ["give_back", "hold", "on_construction", "reference_places", "references_to"]

_WITH_GIL = ctypes.PyDLL(find_libtvm_ffi())  # a destructor may call Python
_ANY, _FIRST_OBJECT = -1, 64  # TypeIndex::kTVMFFIAny, kTVMFFIStaticObjectBegin


def on_construction(cls: Any, note: Callable[[Any], None]) -> None:
    """Have a function called with every new instance of a class: ``__init_handle_by_constructor__`` makes the node.

    For a class with an ``__init__`` of its own it first makes a node without fields, which nobody gives back then.
    """
    make: Callable[..., None] = tvm_ffi.Object.__init_handle_by_constructor__

    def init(self: Any, constructor: Any, *fields: Any) -> None:
        empty = self.__chandle__()
        make(self, constructor, *fields)
        if empty:
            give_back(empty)
        if fields:
            note(self)

    cls.__init_handle_by_constructor__ = init


def reference_places(cls: Any) -> Iterator[tuple[int, bool]]:
    """Yield where a node has the references of fields that a class itself defines, and whether a type stands there."""
    for field in cls.__tvm_ffi_type_info__.fields:
        if field.field_static_type_index == _ANY or field.field_static_type_index >= _FIRST_OBJECT:
            yield field.offset, field.field_static_type_index == _ANY


def references_to(node: int) -> int:
    """Return how many references to an object there are: the first field of ``TVMFFIObject``."""
    return ctypes.c_uint32.from_address(node).value


def hold(node: int) -> None:
    """Take a reference to an object."""
    _WITH_GIL.TVMFFIObjectIncRef(ctypes.c_void_p(node))


def give_back(node: int, place: tuple[int, bool] | None = None) -> None:
    """Give back a reference to an object, or to what it has at a place that :func:`reference_places` yields."""
    held: int | None = node
    if place is not None:
        offset, is_any = place
        if is_any and ctypes.c_int32.from_address(node + offset).value < _FIRST_OBJECT:
            return
        held = ctypes.c_void_p.from_address(node + offset + 8 * is_any).value
    if held is not None:
        _WITH_GIL.TVMFFIObjectDecRef(ctypes.c_void_p(held))
