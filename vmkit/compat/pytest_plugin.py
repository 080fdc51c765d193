"""``tvm.testing.plugin``: gives tests their ``target`` and ``dev``, each test once for each enabled target."""

from __future__ import annotations

import pytest
import tvm
import tvm.testing
from tvm.runtime import Device

__all__ = ["dev", "target"]


@pytest.fixture(params=[str(target) for target, _ in tvm.testing.enabled_targets()])
def target(request: pytest.FixtureRequest) -> str:
    """Return a target as text."""
    return str(request.param)


@pytest.fixture
def dev(target: str) -> Device:
    """Return the device of the target."""
    kind = tvm.target.Target(target).kind.name
    return tvm.device("cpu" if kind == "llvm" else kind)
