"""Registers that kernels hold values in, and memory that they have fetched ahead."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx.script import builder as T

__all__ = ["fetch_ahead", "held", "integer", "register"]


def integer(value: int) -> Any:
    """Return a constant for sizes and places."""
    return tirx.IntImm("int64", value)


def held(value: Any) -> Any:
    """Return an integer that has been put in memory, which LLVM makes a register; a number stays one.

    A pass of TVM's works out which parts of buffers an index reaches, through all that variables stand for: where many
    indices depend on many variables that takes seconds, even minutes. What is loaded it takes for unknown.
    """
    if isinstance(value, int):
        return value
    place = T.alloc_buffer((integer(1),), str(value.ty.dtype), scope="local", layout=None)
    T.buffer_store(place, value, [integer(0)])
    return place[0]


def register(lanes: int, dtype: str = "float32") -> Any:
    """Return memory for one vector, which LLVM keeps in a register."""
    return T.alloc_buffer((integer(1),), f"{dtype}x{lanes}", layout=None)


def fetch_ahead(element: Any) -> None:
    """Write a statement that has an element fetched to the second cache; beyond the end of a tensor that does nothing.

    Weights that come from memory would be waited for at every page, where the machine's own fetching ahead ends.
    """
    address = tirx.address_of(element)
    T.evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *(tirx.IntImm("int32", n) for n in (0, 2, 1))))
