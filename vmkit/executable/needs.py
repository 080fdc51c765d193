"""What the kernel groups of libraries need of their arguments, as the libraries themselves tell it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import tvm
import tvm_ffi

from ..bytecode import Program
from ..values.kernel_needs import SUFFIX, TELL, needs_of_text

__all__ = ["require_needs"]

_told = threading.local()


@tvm_ffi.register_global_func(TELL)
def _tell(text: str) -> None:
    _told.text = str(text)


def require_needs(program: Program, libraries: Sequence[tvm.runtime.Module]) -> None:
    """Raise ExecutableError if bytecode gives a kernel group of a library what that cannot work with.

    A group that tells nothing, of a release that did not know of it, is let pass.
    """
    needs = {}
    for name in program.packed_names:
        # The names of kernels have no dots.
        library = None if "." in name else _having(name + SUFFIX, libraries)
        if library is not None:
            library.get_function(name + SUFFIX, query_imports=True)()
            needs[name] = needs_of_text(_told.text)
    if needs:
        program.require_needs(needs)


def _having(name: str, libraries: Sequence[tvm.runtime.Module]) -> tvm.runtime.Module | None:
    """Return the library that has a function, itself or in what it imports."""
    return next((library for library in libraries if library.implements_function(name, True)), None)
