"""What LLVM makes code for, and how hard it tries."""

from __future__ import annotations

from tvm.target import Target

from ..target.preferences import with_preferences
from .options import current_options

__all__ = ["code_target"]

_LEVEL = "opt-level"
_FULL = 2  # the first level of vmkit's at which LLVM is given all the time that it takes
# Of LLVM's own levels the lowest that makes vectors of loops, which kernels without a rule need.
_QUICK = 2


def code_target(target: Target) -> Target:
    """Return the target that kernels are built for, under the options in force.

    It has vmkit's preferences, and below level 2 a lower level of LLVM's, unless the target itself names one.
    """
    preferred = with_preferences(target)
    config = dict(preferred.export())
    if str(target.kind.name) != "llvm" or current_options().opt_level >= _FULL or _LEVEL in config:
        return preferred
    host = {"host": {**dict(config["host"]), _LEVEL: _QUICK}} if "host" in config else {}
    return Target({**config, _LEVEL: _QUICK, **host})
