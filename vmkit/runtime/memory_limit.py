"""Machines that may use so much memory and no more: each piece is counted before the VM allocates it.

A program that is limited calls a function of this module in the place of the VM's ``alloc_storage``. That a piece is
not used any more is seen by its count of references, for nobody says so. What is given back lies in the VM's pool, for
the next piece of its size, and counts until the pool is emptied, which it is before a piece is refused.
"""

from __future__ import annotations

import functools
import itertools
import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm.runtime import DataType

from .._tvm.running import allocate_integers, allocate_storage, empty_pools, reference_count
from ..bytecode import Arg, ArgKind, Call, Instruction, Program
from ..bytecode.builtins import ALLOC_COUNTED, ALLOC_COUNTED_INTEGERS, ALLOC_SHAPE_HEAP, ALLOC_STORAGE
from ..bytecode.rewrite import with_packed
from ..errors import OptionError, VMError

__all__ = ["Budget", "checked_memory", "counted"]

_PAGE = 4096  # bytes, in multiples of which the pool keeps memory
_FEWEST = 32  # pieces that are let lie before it is looked which of them are still used


def checked_memory(max_memory: int) -> int:
    """Return the bytes that a caller allows; OptionError if they are none."""
    if isinstance(max_memory, bool) or not isinstance(max_memory, int) or max_memory < 1:
        raise OptionError(f"max_memory is {max_memory!r}, expected a number of bytes, at least 1")
    return max_memory


class Budget:
    """The memory that one machine may use, and what it uses.

    Parameters
    ----------
    most
        The most bytes that its results and intermediate values may take at one time.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.number = next(_numbers)
        self._pieces: list[tuple[tvm_ffi.Object, int]] = []
        self._in_use = 0
        self._looked_at = 0
        # What the pool has: how many pieces of each size, and their bytes.
        self._pool: Counter[int] = Counter()
        self._pooled = 0
        self._lock = threading.Lock()
        _budgets[self.number] = self

    def allocate(self, machine: Any, shape: tvm_ffi.Shape, device: int, dtype: str, scope: str) -> tvm_ffi.Object:  # noqa: ANN401 - an address
        """Return new storage for as many elements of a data type; VMError if the machine may not have it."""
        size = math.prod(shape) * _bytes_of(str(dtype))
        return self._counted(size, lambda: allocate_storage(machine, shape, device, dtype, scope))

    def allocate_integers(self, machine: Any, count: int) -> tvm_ffi.Object:  # noqa: ANN401 - an address
        """Return new memory for as many integers; VMError if the machine may not have it."""
        return self._counted(8 * count, lambda: allocate_integers(machine, count))

    def _counted(self, used: int, allocate: Callable[[], tvm_ffi.Object]) -> tvm_ffi.Object:
        size = -(-used // _PAGE) * _PAGE
        with self._lock:
            if len(self._pieces) >= max(_FEWEST, 2 * self._looked_at):
                self._look()
            if not self._reuse(size) and self._in_use + self._pooled + size > self.most:
                self._make_room(size)
            made = allocate()
            self._pieces.append((made, size))
            self._in_use += size
        return made

    def _reuse(self, size: int) -> bool:
        """Say whether the pool has a piece of a size, which it gives then."""
        if self._pool[size] == 0:
            return False
        self._pool[size] -= 1
        self._pooled -= size
        return True

    def _look(self) -> None:
        """Count what is used by the machine or its callers; the rest goes to the pool."""
        used = []
        for made, size in self._pieces:
            if reference_count(made) > 1:
                used.append((made, size))
            else:
                self._pool[size] += 1
                self._pooled += size
                self._in_use -= size
        self._pieces, self._looked_at = used, len(used)

    def _make_room(self, size: int) -> None:
        self._look()
        if self._reuse(size):
            return
        if self._in_use + size > self.most:
            raise VMError(
                f"the call needs {_shown(size)} more, and {_shown(self._in_use)} of results and intermediate values "
                f"are in use: max_memory allows {_shown(self.most)} together; free results or give smaller inputs"
            )
        if self._in_use + self._pooled + size > self.most:
            empty_pools()
            self._pool.clear()
            self._pooled = 0


_numbers = itertools.count()
_budgets: weakref.WeakValueDictionary[int, Budget] = weakref.WeakValueDictionary()


@tvm_ffi.register_global_func(ALLOC_COUNTED)
def _allocate(number: int, *args: Any) -> tvm_ffi.Object:
    return _budgets[number].allocate(*args)


@tvm_ffi.register_global_func(ALLOC_COUNTED_INTEGERS)
def _allocate_integers(number: int, *args: Any) -> tvm_ffi.Object:
    return _budgets[number].allocate_integers(*args)


def counted(program: Program, budget: Budget) -> Program:
    """Return a program whose allocations are counted in a budget, but for shape heaps and others of few integers."""
    if not {ALLOC_STORAGE, ALLOC_SHAPE_HEAP} & set(program.names):
        return program
    number = Arg(ArgKind.IMMEDIATE, budget.number)
    theirs = program.names
    program, storage = with_packed(program, ALLOC_COUNTED)
    program, integers = with_packed(program, ALLOC_COUNTED_INTEGERS)

    def instead(one: Instruction) -> Instruction:
        name = theirs[one.function] if isinstance(one, Call) else ""
        if isinstance(one, Call) and name == ALLOC_STORAGE:
            return Call(one.destination, storage, (number, *one.args))
        if isinstance(one, Call) and name == ALLOC_SHAPE_HEAP and one.args[1].kind != ArgKind.IMMEDIATE:
            return Call(one.destination, integers, (number, *one.args))
        return one

    return replace(program, instructions=tuple(map(instead, program.instructions)))


@functools.lru_cache(maxsize=64)
def _bytes_of(dtype: str) -> int:
    kind = DataType(dtype)
    return -(-kind.bits * kind.lanes // 8)


def _shown(size: int) -> str:
    """Return bytes in the largest unit that they fill."""
    power = max(0, min(4, (size.bit_length() - 1) // 10))
    number = size / (1 << 10 * power)
    return f"{number:.4g} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"
