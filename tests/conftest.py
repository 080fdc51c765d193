"""What all tests share: how Python collects its garbage."""

from __future__ import annotations

import gc


def pytest_collection_finish() -> None:
    """Leave the tests themselves and all imported modules out of garbage collection: they stay to the end."""
    gc.collect()
    gc.freeze()
