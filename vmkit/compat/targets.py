"""Targets written as on TVM's command line: ``tvm.target.Target("llvm -mcpu=skylake")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm.target import Target

from vmkit.target import canonical_target
from vmkit.target.generic_function import generic_func
from vmkit.target.plan import OneTarget

__all__ = ["install_targets"]

_own_init = Target.__init__


def install_targets() -> None:
    """Let ``tvm.target.Target`` take what ``vmkit`` takes as a target."""
    target: Any = Target
    target.__init__ = _init
    target.max_function_args = property(lambda self: int(self.attrs.get("max_function_args", 0)))
    for name, options in _SHORT.items():
        for module in (tvm.target, tvm.target.target):
            setattr(module, name, _shorthand(options))
    tvm.target.create, tvm.target.hexagon = Target, _hexagon
    tvm.target.generic_func = generic_func
    target.canon_target = staticmethod(lambda given: None if given is None else canonical_target(given).primary)
    target.canon_target_and_host = staticmethod(_target_and_host)
    target.canon_multi_target = staticmethod(lambda given: list(canonical_target(given).targets))
    target.canon_multi_target_and_host = staticmethod(
        lambda given, host=None: list(canonical_target(given, host).targets)
    )
    target.canon_target_map_and_host = staticmethod(_targets_and_host)


def _init(self: Target, target: OneTarget, host: OneTarget | None = None) -> None:
    if isinstance(target, str) and " " in target.strip():
        options = dict(canonical_target(target, host).primary.export())
        host = options.pop("host", None)
        target = options
    if isinstance(host, str) and " " in host.strip():
        host = dict(canonical_target(host).primary.export())
    _own_init(self, target, host)


def _hexagon(cpu_ver: str = "v68", **options: Any) -> Target:
    """Return the target of Qualcomm's processor of a version."""
    return Target({"kind": "hexagon", "mcpu": f"hexagon{cpu_ver}", "mtriple": "hexagon", **options})


def _target_and_host(given: OneTarget, target_host: OneTarget | None = None) -> tuple[Target, Target]:
    """Return a target with its host in it, and the host."""
    plan = canonical_target(given, target_host)
    return plan.primary, plan.host


def _targets_and_host(
    given: Mapping[OneTarget, Any], target_host: OneTarget | None = None
) -> tuple[dict[Target, Any], Target]:
    """Return a mapping whose keys are targets, with their host in them, and the host."""
    plans = {key: canonical_target(key, target_host) for key in given}
    return {plan.primary: given[key] for key, plan in plans.items()}, next(iter(plans.values())).host


_SHORT = {
    "adreno": "opencl -device=adreno",
    "arm_cpu": "llvm -device=arm_cpu",
    "bifrost": "opencl -device=bifrost",
    "cuda": "cuda",
    "intel_graphics": "opencl -device=intel_graphics",
    "mali": "opencl -device=mali",
    "micro": "c",
    "rocm": "rocm",
}


def _shorthand(text: str) -> Callable[..., Target]:
    def made(model: str = "", options: str | list[str] | None = None) -> Target:
        extra = options if isinstance(options, str) else " ".join(options or ())
        # The model only chose tuning records that are gone.
        return Target(f"{text} {extra}".strip())

    return made
