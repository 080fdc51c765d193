"""Imports are not searched for garbage, neither while they run nor at once after; what was garbage still is."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from vmkit._deferred import deferred, without_collections


class Cycle:
    """An object that only a search finds unused."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _nothing_is_frozen() -> Iterator[None]:
    """Begin as a process does that has not frozen anything, which the tests have."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def searches() -> Iterator[list[int]]:
    """Return the generations that are searched from here on."""
    found: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def test_neither_inside_nor_at_once_after_is_searched(searches: list[int]) -> None:
    gc.collect(0)  # or one may be due before it begins
    searches.clear()
    with without_collections():
        made = [[number] for number in range(200_000)]
    made.append([])
    assert searches == [] and gc.isenabled()


def test_garbage_of_before_and_of_inside_is_found_later() -> None:
    before = weakref.ref(Cycle())
    with without_collections():
        inside = weakref.ref(Cycle())
    assert inside() is not None
    gc.collect()
    assert before() is None and inside() is None


def test_what_the_process_froze_stays_frozen() -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    with without_collections():
        pass
    assert gc.get_freeze_count() == before


def test_a_process_without_searches_stays_so() -> None:
    gc.disable()
    try:
        with without_collections():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_module_is_imported_with_its_first_attribute() -> None:
    assert deferred("no_such_module") is not None
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = deferred("no_such_module").attribute
    assert deferred("json").loads("[1]") == [1]
