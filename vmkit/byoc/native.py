"""Runtimes of code generators in C++: compiled the first time that they are needed, and loaded.

tvm-ffi's builder keeps what it compiled under ``TVM_FFI_CACHE_DIR``, by its source and what it was compiled with. It
needs a C++ compiler and ``ninja``: ``pip install 'vmkit[native]'`` where the system has none.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm_ffi import cpp

from ..errors import CompileError

__all__ = ["creator", "load_runtime", "runtime_function"]

_keep: list[tvm_ffi.Module] = []  # what they registered is used for as long as the process runs


def load_runtime(
    kind: str,
    sources: Sequence[str],
    *,
    flags: Sequence[str] = (),
    include: Sequence[Path] = (),
    link: Sequence[str] = (),
) -> None:
    """Compile a runtime, if that was not done before, and load it; that registers its functions.

    Parameters
    ----------
    kind : str
        The kind of its modules.
    sources : sequence of str
        C++ files, by their places below ``vmkit/byoc``.
    flags, link : sequence of str
        For the compiler, and for the linker.
    include : sequence of Path
        Where headers are.

    Raises
    ------
    ImportError
        When it cannot be compiled, or loaded: the modules that call this are what an executable imports.
    """
    with as_file(files(__package__)) as folder, _ninja():
        paths = [folder / source for source in sources]
        try:
            library = cpp.build(
                f"vmkit_{kind}",
                sources=[str(path) for path in paths],
                extra_cflags=[*flags, f"-DVMKIT_HEADERS={_digest(paths, folder)}"],
                extra_ldflags=list(link),
                extra_include_paths=[str(folder), *map(str, include)],
            )
            _keep.append(tvm_ffi.load_module(library))
        except (RuntimeError, OSError) as error:
            raise ImportError(f"the runtime of {kind} cannot be compiled and loaded: {error}") from error


def creator(kind: str, module: str) -> Callable[[str], tvm.runtime.Module]:
    """Return what makes modules of a kind from the JSON of graphs by the names of their functions.

    Raises
    ------
    CompileError
        When `module`, whose import loads the runtime, cannot be imported.
    """
    try:
        __import__(module)
    except ImportError as error:
        raise CompileError(str(error)) from error
    return runtime_function(kind, "create")


def runtime_function(kind: str, name: str) -> Callable[..., Any]:
    """Return a function that a runtime has registered as ``vmkit.byoc.<kind>.<name>``."""
    registered = f"vmkit.byoc.{kind}.{name}"
    made: Callable[..., Any] = tvm.get_global_func(registered)
    return made


def _digest(sources: Sequence[Path], folder: Path) -> str:
    """Return what changes with a header that the builder, which knows the sources alone, would not see."""
    headers = sorted({*folder.glob("*.h"), *(h for source in sources for h in source.parent.glob("*.h"))})
    return hashlib.sha256(b"".join(header.read_bytes() for header in headers)).hexdigest()[:16]


@contextmanager
def _ninja() -> Iterator[None]:
    """Let the builder find the ``ninja`` of this Python's environment, which need not have been activated."""
    before = os.environ.get("PATH", os.defpath)
    if shutil.which("ninja") is None:
        os.environ["PATH"] = f"{before}{os.pathsep}{Path(sys.executable).parent}"
    try:
        yield
    finally:
        os.environ["PATH"] = before
