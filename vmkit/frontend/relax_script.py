"""Relax programs as TVMScript: Python, which is run when it is read.

``mod.script(show_meta=True)`` prints a program so, without its imports; people write it in files of Python, with them.
Both are run here as a module of Python in which ``I``, ``R``, ``T``, ``tvm`` and ``TypeVar`` are known already.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import tvm
from tvm import relax
from tvm.error import DiagnosticError
from tvm.script import ir, tirx
from tvm.script import relax as relax_script

from ..errors import ModelError

__all__ = ["SUFFIXES", "from_relax_script"]

SUFFIXES = (".py", ".relax")
"""Of files that hold a Relax script."""

_NAMES = {"I": ir, "R": relax_script, "T": tirx, "tvm": tvm, "TypeVar": TypeVar}


def from_relax_script(path: str | os.PathLike[str]) -> tvm.IRModule:
    """Return the Relax module of a file of TVMScript, **whose code is run**: for files that are trusted.

    Parameters
    ----------
    path : path
        Python in which one ``tvm.IRModule`` gets a name, by ``@I.ir_module`` or otherwise; or else one function by
        ``@R.function``, which becomes ``main``. The text of ``mod.script(show_meta=True)`` is such a file, too.

    Raises
    ------
    ModelError
        If it is no text, does not run, or has no or several programs; with the line.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: expected text in UTF-8, but {error}") from error
    with _module(path) as module:
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except SyntaxError as error:
            raise ModelError(f"{path}:{error.lineno}: not Python: {error.msg}") from error
        except DiagnosticError as error:
            raise ModelError(f"{path}: not a Relax script: {error}") from error
        except Exception as error:
            raise ModelError(f"{path}{_line(path, error)}: {type(error).__name__}: {error}") from error
    return _program(path, module)


@contextlib.contextmanager
def _module(path: Path) -> Iterator[ModuleType]:
    """Yield an empty module of Python for a file, known to Python for as long: TVM looks for the sources of classes."""
    module = ModuleType(f"vmkit relax script {path.resolve()}")
    module.__file__ = str(path)
    vars(module).update(_NAMES)
    sys.modules[module.__name__] = module
    try:
        yield module
    finally:
        del sys.modules[module.__name__]


def _line(path: Path, error: Exception) -> str:
    """Return the last line of a file that an error came by."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""


def _program(path: Path, module: ModuleType) -> tvm.IRModule:
    """Return the one program among the names of a module."""
    named = {name: value for name, value in vars(module).items() if name not in _NAMES}
    programs: dict[str, tvm.IRModule | relax.Function] = {
        name: value for name, value in named.items() if isinstance(value, tvm.IRModule)
    }
    if not programs:
        programs = {name: value for name, value in named.items() if isinstance(value, relax.Function)}
    if len({id(program) for program in programs.values()}) != 1:
        found = f"has {', '.join(sorted(programs))}" if programs else "has none"
        raise ModelError(f"{path}: expected one tvm.IRModule, or one function of Relax, but the script {found}")
    program = next(iter(programs.values()))
    if isinstance(program, tvm.IRModule):
        return program
    return tvm.IRModule({"main": program.with_attr("global_symbol", "main")})
