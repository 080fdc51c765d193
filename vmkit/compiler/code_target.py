"""What LLVM makes code for, and how hard it tries."""

from __future__ import annotations

from tvm import IRModule, tirx
from tvm.target import Target

from ..kernels.builder import WRITTEN_OUT
from ..target.preferences import with_preferences
from .options import current_options

__all__ = ["code_target", "is_left_to_llvm"]

_LEVEL = "opt-level"
_FULL = 2  # the first level of vmkit's at which LLVM is given all the time that it takes
# Of LLVM's own levels the lowest that makes vectors of loops, and the one below.
_VECTORS, _NO_VECTORS = 2, 1


def code_target(target: Target, kernels: IRModule | None = None) -> Target:
    """Return the target that kernels are built for, under the options in force.

    It has vmkit's preferences, and below level 2 a lower level of LLVM's, unless the target itself names one.

    Parameters
    ----------
    kernels
        What is built. Where LLVM has no vectors to make in it, it is given less time; None where that is not known.
    """
    preferred = with_preferences(target)
    config = dict(preferred.export())
    if str(target.kind.name) != "llvm" or not _is_quick() or _LEVEL in config:
        return preferred
    has_vectors = kernels is not None and not any(map(is_left_to_llvm, kernels.functions.values()))
    level = _NO_VECTORS if has_vectors else _VECTORS
    host = {"host": {**dict(config["host"]), _LEVEL: level}} if "host" in config else {}
    return Target({**config, _LEVEL: level, **host})


def is_left_to_llvm(function: tirx.PrimFunc) -> bool:
    """Say whether LLVM is to make vectors in a kernel, under the options in force: not in those that are written out.

    Rules leave loops of sizes that are known at run time only to it, and rests of others.
    """
    return _is_quick() and WRITTEN_OUT not in function.attrs


def _is_quick() -> bool:
    return current_options().opt_level < _FULL
