"""Targets written as on TVM's command line: ``tvm.target.Target("llvm -mcpu=skylake")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm.target import Target

from vmkit.target import canonical_target
from vmkit.target.plan import OneTarget

__all__ = ["install_targets"]

_own_init = Target.__init__


def install_targets() -> None:
    """Let ``tvm.target.Target`` take what ``vmkit`` takes as a target."""
    target: Any = Target
    target.__init__ = _init
    for name, options in _SHORT.items():
        setattr(tvm.target, name, _shorthand(options))
    tvm.target.create = Target


def _init(self: Target, target: OneTarget, host: OneTarget | None = None) -> None:
    if isinstance(target, str) and " " in target.strip():
        options = dict(canonical_target(target, host).primary.export())
        host = options.pop("host", None)
        target = options
    if isinstance(host, str) and " " in host.strip():
        host = dict(canonical_target(host).primary.export())
    _own_init(self, target, host)


_SHORT = {"cuda": "cuda", "rocm": "rocm", "mali": "opencl -device=mali", "arm_cpu": "llvm -device=arm_cpu"}


def _shorthand(text: str) -> Callable[..., Target]:
    def made(model: str = "", options: str | list[str] | None = None) -> Target:
        extra = options if isinstance(options, str) else " ".join(options or ())
        # The model only chose tuning records that are gone.
        return Target(f"{text} {extra}".strip())

    return made
