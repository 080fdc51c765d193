"""Machine code out of libraries that LLVM holds, which it makes when a function is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import tvm.runtime

from ..bytecode import Program

__all__ = ["built_here", "make_machine_code"]


def built_here(libraries: Sequence[tvm.runtime.Module], program: Program) -> tuple[tvm.runtime.Module, ...]:
    """Return libraries of kernels as ones that run here, those that do already as they are."""
    make_machine_code(libraries, lambda: program.packed_names)
    return tuple(tvm.runtime.Executable(library).jit() for library in libraries)


def make_machine_code(libraries: Sequence[tvm.runtime.Module], functions: Callable[[], Iterable[str]]) -> None:
    """Have the machine code of libraries, and of what they import, made on all cores; what has it stays as it is.

    A machine asks for one function after the other, and so would have it made on one.

    Parameters
    ----------
    libraries : sequence of Module
        Of any kind; those that LLVM holds are looked at.
    functions : callable
        Returns names of functions that may be in them: one of each library is asked for.
    """
    held = [each for library in libraries for each in (library, *library.imports) if each.kind == "llvm"]
    if len(held) < 2:
        return
    names = list(functions())

    def ask(library: tvm.runtime.Module) -> None:
        name = next((name for name in names if library.implements_function(name)), None)
        if name is not None:
            library.get_function(name)

    # There are as many as cores built them, and one of functions that compute sizes.
    with ThreadPoolExecutor(len(held), thread_name_prefix="vmkit-code") as pool:
        list(pool.map(ask, held))
