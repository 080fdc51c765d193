"""What all tests share: how Python collects its garbage, where what they compile is kept, which cases run nightly."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from tests.sweeps import is_in_ci


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the nightly run what a sweep has beyond its part in CI, before ``-m`` selects."""
    for item in items:
        sweep = item.get_closest_marker("sweep")
        if sweep is not None and not is_in_ci(item, **sweep.kwargs):
            item.add_marker(pytest.mark.nightly)
