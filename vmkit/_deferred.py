"""Modules that are imported once something of them is used, and what makes importing many of them cheap.

What describes values has to be cheap to import, but what converts them needs numpy and TVM. A module that does both
names the expensive ones with :func:`deferred`. An attribute is looked up once and then is the object's own, so that
using one costs what it costs of a module.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import sys
from collections.abc import Iterator
from importlib import import_module
from types import GeneratorType
from typing import Any, TextIO

__all__ = ["deferred", "without_collections"]


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Have no cyclic garbage searched for while modules are imported, nor what they made when the process ends soon.

    What they make stays, and there is much of it: searching takes a tenth of the time that an import of TVM takes. So
    does one search of all of it afterwards, which would follow at once, and the interpreter searches three times when
    it ends: a third of the time that a process takes which compiles one operator. So what is there after an import is
    frozen until the process lasts long enough for a search of everything, which finds it like anything else.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _freeze()
            gc.enable()


# An object that was made after all others had been frozen here; None if none are. If others freeze what there is then
# it is frozen, too, and all of it is meant to stay so.
_mark: list[object] | None = None


def _freeze() -> None:
    """Freeze all objects until everything is searched, or have them be among those that are searched seldom."""
    global _mark
    # Counting what is frozen takes long, unless nothing is.
    if not _is_frozen_here() if _mark is not None else gc.get_freeze_count() > 0:
        return
    is_waiting = _is_finalizer_waiting()
    gc.freeze()
    if is_waiting:
        gc.unfreeze()
        _mark = None
        return
    _mark = []
    if _before_search not in gc.callbacks:
        gc.callbacks.append(_before_search)
        atexit.register(_leave_frozen)


def _is_frozen_here() -> bool:
    """Say whether what is frozen was frozen here, and nothing by others since."""
    return _mark is not None and any(each is _mark for each in gc.get_objects())


def _is_finalizer_waiting() -> bool:
    """Say whether an object has something to do when it ends, such as an open file that has not written all.

    It may be held by a cycle, and would be forgotten if that were frozen when the process ends.
    """
    everything = gc.get_objects()
    # What a generator has left to do is for whoever left it there.
    types = tuple(t for t in set(map(type, everything)) if hasattr(t, "__del__") and t is not GeneratorType)
    return any(not _is_harmless(each) for each in everything if isinstance(each, types)) if types else False


def _is_harmless(each: object) -> bool:
    """Say whether an object with a finalizer is a file with nothing to write, or one that the interpreter ends."""
    if not isinstance(each, io.IOBase):
        return False
    standard = [sys.__stdin__, sys.__stdout__, sys.__stderr__]
    layers = [layer for stream in standard if stream is not None for layer in (stream, *_below(stream))]
    return each.closed or not each.writable() or any(each is layer for layer in layers)


def _below(stream: TextIO) -> tuple[object, object]:
    buffer = getattr(stream, "buffer", None)
    return buffer, getattr(buffer, "raw", None)


def _before_search(phase: str, info: dict[str, int]) -> None:
    """Before everything is searched, have that be everything."""
    global _mark
    if phase == "start" and info["generation"] == 2 and _mark is not None:
        if _is_frozen_here():
            gc.unfreeze()
        _mark = None


def _leave_frozen() -> None:
    """Have the searches with which the process ends leave out what is frozen."""
    if _before_search in gc.callbacks:
        gc.callbacks.remove(_before_search)


class _DeferredModule:
    """Stands for a module; see :func:`deferred`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value

    def __repr__(self) -> str:
        return f"<deferred module {self._name!r}>"


def deferred(name: str) -> _DeferredModule:
    """Return what reads like the module of a name, which is imported with the first attribute that is asked for.

    >>> json = deferred("json")
    >>> json, json.dumps([1])
    (<deferred module 'json'>, '[1]')
    """
    return _DeferredModule(name)
