"""The kernels of a program as several modules for LLVM, which are built at once, or one after the other.

A part is a private function, so where LLVM holds on to modules it is in that of the group that calls it; groups that
follow each other have the most parts in common, and stay together. One that groups of two modules call is in both.
Where their objects are linked a part is in one module, which need not be its group's: the linker finds it by a symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import tvm
import tvm_ffi
from tvm import ir, tirx

from ..relax.kernel_groups.parts import by_itself, is_part, linker_symbol, parts_called_by

__all__ = ["modules_of", "modules_to_link", "number_of_modules"]

_FEWEST = 8  # functions of a module: setting up LLVM for one takes as long as building two of them

_LARGEST = 200  # stores of a module: of more, what LLVM has in memory for it is more than most weights are

_WORTH = 250  # stores of a module, be it of a few functions, that take ten times as long as setting up LLVM for it

_OF_ITSELF = 16  # stores that take as long as all of a small function but its stores

Functions = dict[ir.GlobalVar, tirx.PrimFunc]


def number_of_modules(kernels: tvm.IRModule, cores: int) -> int:
    """Return in how many modules kernels are built that stay in memory as objects alone; 1 for few of them.

    As many as there are cores, and more if these would be large. Each is in memory only while it is built.
    """
    count = len(kernels.functions)
    if count < 2 * _FEWEST:
        return 1  # linking them would take longer
    size = sum(_size(function) for function in kernels.functions.values())
    return max(1, min(max(cores, size // _LARGEST), _most(count, size)))


def modules_of(kernels: tvm.IRModule, most: int) -> list[tvm.IRModule]:
    """Return at most so many modules, of about the same size, in which all kernels of a module are."""
    return [tvm.IRModule(functions, attrs=kernels.attrs) for functions in _in_modules(kernels, most)]


def modules_to_link(
    kernels: tvm.IRModule, most: int, kind: Callable[[tirx.PrimFunc], Hashable] = lambda _: None
) -> list[tvm.IRModule]:
    """Return about so many modules, of about the same size, whose objects are linked into one library.

    All kernels of a module are in them, each in one, with those of its kind alone.
    """
    kinds: dict[Hashable, Functions] = {}
    for functions in _with_their_parts(kernels):
        # Those that a group calls follow it. Were all in its module, a program of one group would be one module.
        for gvar, function in functions.items():
            kinds.setdefault(kind(function), {})[gvar] = function
    sizes = {kind: sum(map(_size, alike.values())) for kind, alike in kinds.items()}
    total = max(1, sum(sizes.values()))
    modules = [
        functions
        for kind, alike in kinds.items()
        for functions in _cut(
            [{gvar: function} for gvar, function in alike.items()],
            min(round(most * sizes[kind] / total), _most(len(alike), sizes[kind])),
        )
    ]
    parts = {gvar.name_hint: function for gvar, function in kernels.functions.items() if is_part(function)}
    symbols = {name: linker_symbol(name, part) for name, part in parts.items()}
    return [
        tvm.IRModule(
            {gvar: by_itself(function, symbols, gvar.name_hint) for gvar, function in functions.items()},
            attrs=kernels.attrs,
        )
        for functions in modules
    ]


def _in_modules(kernels: tvm.IRModule, most: int) -> list[Functions]:
    """Return the functions of each module, with all parts that these call."""
    return _cut(list(_with_their_parts(kernels)), min(most, len(kernels.functions) // _FEWEST))


def _most(functions: int, size: int) -> int:
    """Return in how many modules so many functions, with so many stores, are built at most."""
    return min(functions, max(functions // _FEWEST, size // _WORTH))


def _cut(kernels: Sequence[Functions], most: int) -> list[Functions]:
    """Return functions that stay together, in at most so many modules of about the same size."""
    if most < 2:
        return [{gvar: function for functions in kernels for gvar, function in functions.items()}]
    made: list[Functions] = [{} for _ in range(most)]
    known: set[ir.GlobalVar] = set()
    sizes = []
    for functions in kernels:
        sizes.append(sum(_size(function) for gvar, function in functions.items() if gvar not in known))
        known.update(functions)
    total, before = sum(sizes), 0
    for functions, size in zip(kernels, sizes, strict=True):
        # Where its middle lies, so that no module is much larger than its share.
        made[min(most - 1, (2 * before + size) * most // max(1, 2 * total))] |= functions
        before += size
    return [functions for functions in made if functions]


def _with_their_parts(kernels: tvm.IRModule) -> Iterator[Functions]:
    """Yield each function that the program calls, with the parts that it calls."""
    functions = {gvar.name_hint: (gvar, function) for gvar, function in kernels.functions.items()}
    for gvar, function in functions.values():
        if not is_part(function):
            called = (functions[name] for name in parts_called_by(function) if name in functions)
            yield {gvar: function, **dict(called)}


def _size(function: tirx.PrimFunc) -> int:
    """Return about how long building a function takes, in no unit: the stores in its text, and as much as some do."""
    stores = _OF_ITSELF

    def visit(_: tirx.BufferStore) -> None:
        nonlocal stores
        stores += 1

    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, visit))
    return stores
