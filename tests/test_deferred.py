"""Imports are not searched for garbage, neither while they run nor at once after; what was garbage still is."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
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


def told_by(code: str) -> Any:
    """Return what a process prints as JSON that imports modules in a block after some code, and then runs more."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_IMPORT = """import gc, json, weakref
from vmkit._deferred import without_collections
class Cycle:
    def __init__(self): self.itself = self
garbage = weakref.ref(Cycle())
with without_collections():
    import decimal
frozen = gc.get_freeze_count()
"""


def test_a_process_that_ends_soon_does_not_search_what_was_imported() -> None:
    code = f"""{_IMPORT}
import atexit, os
def tell(phase, info):  # which is asked for the first search of those with which a process ends
    if phase == "start": os.write(1, json.dumps([frozen > 5_000, len(gc.get_objects()) < 1_000]).encode())
atexit.register(gc.callbacks.append, tell)
"""
    assert told_by(code) == [True, True]


def test_a_search_of_everything_is_one_of_what_was_imported_too() -> None:
    code = f"""{_IMPORT}
gc.collect(1)
told = [frozen > 5_000, gc.get_freeze_count() == frozen, garbage() is not None]
gc.collect()
print(json.dumps([*told, gc.get_freeze_count(), garbage() is None]))
"""
    assert told_by(code) == [True, True, True, 0, True]


def test_what_the_process_freezes_later_stays_frozen() -> None:
    code = f"""{_IMPORT}
gc.freeze()
gc.collect()
print(json.dumps([gc.get_freeze_count() > 5_000, garbage() is not None]))
"""
    assert told_by(code) == [True, True]


@pytest.mark.parametrize("held_by", ["Holder.file", "cycle.file"])
def test_a_file_that_a_cycle_holds_is_written_when_the_process_ends(held_by: str, tmp_path: Path) -> None:
    path = tmp_path / "written.txt"
    code = f"""import json
class Holder: pass
cycle = Holder(); cycle.itself = cycle
{held_by} = open({str(path)!r}, "w")
{held_by}.write("all of it")
{_IMPORT}
print(frozen)
"""
    assert told_by(code) == 0
    assert path.read_text() == "all of it"


def test_a_module_is_imported_with_its_first_attribute() -> None:
    assert deferred("no_such_module") is not None
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = deferred("no_such_module").attribute
    assert deferred("json").loads("[1]") == [1]
