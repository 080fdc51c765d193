"""The kernels of a program as several modules for LLVM, which are built at once, or one after the other.

A part is a private function, so it is in the module of the group that calls it; groups that follow each other have the
most parts in common, and stay together. One that groups of two modules call is in both where LLVM holds on to them.
Where their objects are linked it is in the first alone, and the linker finds it by a symbol: layers of a transformer
have all their parts in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import tvm
import tvm_ffi
from tvm import ir, tirx

from ..relax.kernel_groups.parts import by_itself, is_part, linker_symbol, parts_called_by

__all__ = ["modules_of", "modules_to_link", "number_of_modules"]

_FEWEST = 8  # functions of a module: setting up LLVM for one takes as long as building two of them

_LARGEST = 200  # stores of a module: of more, what LLVM has in memory for it is more than most weights are

_OF_ITSELF = 16  # stores that take as long as all of a small function but its stores

Functions = dict[ir.GlobalVar, tirx.PrimFunc]


def number_of_modules(kernels: tvm.IRModule, cores: int) -> int:
    """Return in how many modules kernels are built that stay in memory as objects alone; 1 for few of them.

    As many as there are cores, and more if these would be large. Each is in memory only while it is built.
    """
    size = sum(_size(function) for function in kernels.functions.values())
    return max(1, min(max(cores, size // _LARGEST), len(kernels.functions) // _FEWEST))


def modules_of(kernels: tvm.IRModule, most: int) -> list[tvm.IRModule]:
    """Return at most so many modules, of about the same size, in which all kernels of a module are."""
    return [tvm.IRModule(functions, attrs=kernels.attrs) for functions in _in_modules(kernels, most)]


def modules_to_link(
    kernels: tvm.IRModule, most: int, is_apart: Callable[[tirx.PrimFunc], bool] = lambda _: False
) -> list[tvm.IRModule]:
    """Return at most so many modules, of about the same size, whose objects are linked into one library.

    All kernels of a module are in them, each in one. Those that `is_apart` says so of, if not all, are one of the
    modules.
    """
    apart = {gvar: function for gvar, function in kernels.functions.items() if is_apart(function)}
    is_mixed = 0 < len(apart) < len(kernels.functions)
    modules = [apart, *_in_modules(kernels, max(1, most - 1))] if is_mixed else _in_modules(kernels, most)
    first = dict[str, int]()
    symbols: dict[str, str] = {}
    for at, functions in enumerate(modules):
        for name, function in ((gvar.name_hint, function) for gvar, function in functions.items()):
            if first.setdefault(name, at) != at and name not in symbols:
                symbols[name] = linker_symbol(name, function)
    made = []
    for at, functions in enumerate(modules):
        elsewhere = {name: symbol for name, symbol in symbols.items() if first[name] != at}
        own = {gvar: function for gvar, function in functions.items() if first[gvar.name_hint] == at}
        for gvar, function in own.items():
            own[gvar] = by_itself(function, symbols if gvar.name_hint in symbols else elsewhere, gvar.name_hint)
        if own:
            made.append(tvm.IRModule(own, attrs=kernels.attrs))
    return made


def _in_modules(kernels: tvm.IRModule, most: int) -> Sequence[Functions]:
    """Return the functions of each module, with all parts that these call."""
    most = min(most, len(kernels.functions) // _FEWEST)
    if most < 2:
        return [dict(kernels.functions.items())]
    made: list[Functions] = [{} for _ in range(most)]
    own = list(_with_their_parts(kernels))
    known: set[ir.GlobalVar] = set()
    sizes = []
    for functions in own:
        sizes.append(sum(_size(function) for gvar, function in functions.items() if gvar not in known))
        known.update(functions)
    total, before = sum(sizes), 0
    for functions, size in zip(own, sizes, strict=True):
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
