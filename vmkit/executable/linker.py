"""What links kernels into a shared library: this machine's compiler, or for another machine a cross compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from tvm.support import cc

from ..errors import ExecutableError
from ..target import llvm

__all__ = ["Linker", "advice", "linker_for"]

Linker = str | Callable[..., Any]
"""A command such as ``aarch64-linux-gnu-gcc``, or what TVM's ``export_library`` takes as `fcompile`."""


def linker_for(triple: str, given: Linker | None = None) -> Callable[..., Any] | None:
    """Return what links for a triple, as `fcompile` of ``export_library``; None where nothing is found.

    Parameters
    ----------
    triple : str
        Of the machine that is to run the library.
    given : Linker, optional
        By default the C compiler of this machine where it makes such code, else that of the environment variables
        ``CXX`` and ``CC`` if it does, else a cross compiler by its usual name, such as ``aarch64-linux-gnu-gcc``.

    Raises
    ------
    ExecutableError
        If the given command is not there or links for another machine.
    """
    if given is None:
        found = next((each for each in _usual(triple) if _is_there(each)), None)
        return None if found is None else _calling(found, triple)
    if not isinstance(given, str):
        return given
    if not _is_there(given):
        raise ExecutableError(f"linker {given!r} cannot be found; {advice(triple)}")
    made_for = _machine_of(given)
    if made_for is not None and not _is_same(made_for, triple):
        raise ExecutableError(f"linker {given!r} makes code for {made_for}, but the target is {triple}")
    return _calling(given, triple)


def advice(triple: str) -> str:
    """Return what to do where nothing links for a triple."""
    if _is_same(llvm.default_triple(), triple):
        return "install gcc or clang, or set the environment variable CXX"
    return f"install a cross compiler such as {next(_cross(triple))}, or name one with export(path, linker=...)"


def _usual(triple: str) -> Iterator[str]:
    if _is_same(llvm.default_triple(), triple):
        own = cc.get_cc()
        if own:
            yield own
        return
    for variable in ("CXX", "CC"):
        named = os.environ.get(variable)
        machine = _machine_of(named) if named and _is_there(named) else None
        if named and machine is not None and _is_same(machine, triple):
            yield named
    yield from _cross(triple)


def _cross(triple: str) -> Iterator[str]:
    """Yield the names that cross compilers have: by the triple as given, by LLVM's architecture, without a vendor."""
    first, *rest = triple.split("-")
    names = [triple, "-".join([llvm.architecture(triple) or first, *rest])]
    if len(rest) == 3:
        names += ["-".join([name.split("-")[0], *rest[1:]]) for name in names]
    for name in dict.fromkeys(names):
        yield from (f"{name}-gcc", f"{name}-g++")


def _is_there(command: str) -> bool:
    words = shlex.split(command)
    return bool(words) and shutil.which(words[0]) is not None


def _machine_of(command: str) -> str | None:
    """Return the triple that a compiler makes code for, None where it does not say."""
    try:
        said = subprocess.run([*shlex.split(command), "-dumpmachine"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() if said.returncode == 0 and "-" in said.stdout else None


def _is_same(one: str, other: str) -> bool:
    """Tell whether code for both triples links alike."""
    if llvm.architecture(one) != llvm.architecture(other):
        return False
    systems = {llvm.operating_system(triple) for triple in (one, other)} - {""}
    return len(systems) < 2


def _calling(command: str, triple: str) -> Callable[..., Any]:
    program, *options = shlex.split(command)
    # What is not linked against here would have to be in the program that loads the library.
    calling: Callable[..., Any] = cc.cross_compiler(program, [*options, "-lm"], get_target_triple=lambda: triple)
    return calling
