"""Helpers of ``tvm.testing`` that tests of scripts use and that are gone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import tvm

__all__ = ["install_testing"]


def install_testing(testing: ModuleType) -> None:
    """Add the helpers that a module lacks."""
    for name, helper in _HELPERS.items():
        if not hasattr(testing, name):
            setattr(testing, name, helper)


def parametrize_targets(*targets: Any) -> Any:
    """Run a test that takes ``target`` and ``dev`` for each target; those whose device is absent are left out."""
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets("llvm")(targets[0])

    def decorate(test: Callable[..., Any]) -> Any:
        present = [t for t in targets if tvm.device(str(t).split()[0]).exist]
        return pytest.mark.parametrize("target,dev", [(t, tvm.device(str(t).split()[0])) for t in present])(test)

    return decorate


def parameters(*value_sets: Any, ids: Any = None) -> tuple[Any, ...]:
    """Return fixtures that go through sets of values together, as ``tvm.testing.parameter`` does for one."""
    made = []
    for position in range(len(value_sets[0])):

        @pytest.fixture(params=range(len(value_sets)), ids=ids)
        def fixture(request: Any, position: int = position) -> Any:
            return value_sets[request.param][position]

        made.append(fixture)
    return tuple(made)


def _requires(kind: str) -> Callable[..., Any]:
    def mark(*args: Any) -> Any:
        found = tvm.device(kind).exist
        marks = [pytest.mark.skipif(not found, reason=f"there is no device {kind}")]
        if args and callable(args[0]):
            return functools.reduce(lambda test, one: one(test), marks, args[0])
        return marks

    return mark


def _leave_out(*targets: Any) -> Callable[[Any], Any]:
    """Mark a test that some targets are not for; tests run for those whose device is present anyway."""
    return lambda test: test


_HELPERS: dict[str, Any] = {
    "exclude_targets": _leave_out,
    "known_failing_targets": _leave_out,
    "parameters": parameters,
    "parametrize_targets": parametrize_targets,
    "requires_cuda": _requires("cuda"),
    "requires_gpu": _requires("cuda"),
    "requires_llvm": _requires("llvm"),
    "requires_metal": _requires("metal"),
    "requires_opencl": _requires("opencl"),
    "requires_rocm": _requires("rocm"),
    "requires_vulkan": _requires("vulkan"),
    "uses_gpu": lambda *args: args[0] if args else [],
}
