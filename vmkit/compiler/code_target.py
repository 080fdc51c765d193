"""What LLVM makes code for, and how hard it tries."""

from __future__ import annotations

import tvm_ffi
from tvm import IRModule, tirx
from tvm.target import Target

from ..kernels.builder import WRITTEN_OUT
from ..relax.kernel_groups.parts import CALLS_PARTS
from ..target.preferences import with_preferences
from .options import current_options

__all__ = ["code_target", "llvm_level"]

_LEVEL = "opt-level"
_FULL = 2  # the first level of vmkit's at which LLVM is given all the time that it takes
# Of LLVM's own levels the lowest that makes vectors of loops, the one below, and the one that optimises nothing.
_VECTORS, _NO_VECTORS, _PLAIN = 2, 1, 0


def code_target(target: Target, kernels: IRModule | None = None) -> Target:
    """Return the target that kernels are built for, under the options in force.

    It has vmkit's preferences, and where LLVM is given less time a lower level of LLVM's, unless the target itself
    names one.

    Parameters
    ----------
    kernels
        What is built; None where that is not known. The highest level of :func:`llvm_level` is for all in it.
    """
    preferred = with_preferences(target)
    config = dict(preferred.export())
    if str(target.kind.name) != "llvm" or _LEVEL in config:
        return preferred
    levels = set() if kernels is None else set(map(llvm_level, kernels.functions.values()))
    level = _default_level() if not levels or None in levels else max(each for each in levels if each is not None)
    if level is None:
        return preferred
    host = {"host": {**dict(config["host"]), _LEVEL: level}} if "host" in config else {}
    return Target({**config, _LEVEL: level, **host})


def llvm_level(function: tirx.PrimFunc) -> int | None:
    """Return LLVM's level for a kernel, under the options in force; None for TVM's default, which is the highest.

    A function that only calls others, each once, has nothing in it that takes time when it runs. Below level 2 LLVM
    makes vectors in kernels that rules schedule, which leave loops of sizes that are known at run time only to it, and
    rests of others; not in those that are written out.
    """
    if CALLS_PARTS in function.attrs and not _has_loops(function):
        return _PLAIN
    return _NO_VECTORS if WRITTEN_OUT in function.attrs and _is_quick() else _default_level()


def _default_level() -> int | None:
    return _VECTORS if _is_quick() else None


def _has_loops(function: tirx.PrimFunc) -> bool:
    has_loops = False

    def visit(_: tirx.Stmt) -> None:
        nonlocal has_loops
        has_loops = True

    tvm_ffi.structural_walk(function.body, ((tirx.For, tirx.While), visit))
    return has_loops


def _is_quick() -> bool:
    return current_options().opt_level < _FULL
