"""What the tests of operators share: dimensions that are known, and dimensions that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vmkit import relay

Dimension = Callable[[int], Any]


@pytest.fixture(params=["known", "unknown"])
def dim(request: pytest.FixtureRequest) -> Dimension:
    """Return a function that makes a size a dimension: itself, or Any."""
    return (lambda size: size) if request.param == "known" else lambda size: relay.Any()
