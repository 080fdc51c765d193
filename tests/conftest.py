"""What all tests share: how Python collects its garbage, and where what they compile is kept."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Leave the user's cache alone, and find nothing there that another run compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the tests themselves and all imported modules out of garbage collection: they stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
