"""Who counts the references to a node, which tvm-ffi says in no public way."""

from __future__ import annotations

import ctypes

from tvm_ffi.libinfo import find_libtvm_ffi

__all__ = ["give_back", "hold", "references_to"]

_WITH_GIL = ctypes.PyDLL(find_libtvm_ffi())  # a destructor may call Python


def references_to(node: int) -> int:
    """Return how many references to an object there are: the first field of ``TVMFFIObject``."""
    return ctypes.c_uint32.from_address(node).value


def hold(node: int) -> None:
    """Take a reference to an object."""
    _WITH_GIL.TVMFFIObjectIncRef(ctypes.c_void_p(node))


def give_back(node: int) -> None:
    """Give back a reference to an object."""
    _WITH_GIL.TVMFFIObjectDecRef(ctypes.c_void_p(node))
