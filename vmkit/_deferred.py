"""Modules that are imported once something of them is used, and what makes importing many of them cheap.

What describes values has to be cheap to import, but what converts them needs numpy and TVM. A module that does both
names the expensive ones with :func:`deferred`. An attribute is looked up once and then is the object's own, so that
using one costs what it costs of a module.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from importlib import import_module
from typing import Any

__all__ = ["deferred", "without_collections"]


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Have no cyclic garbage searched for while modules are imported.

    What they make stays, and there is much of it: searching takes a tenth of the time that an import of TVM takes. So
    does one search of all of it afterwards, which would follow at once; what is there then counts as old instead.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            _age()
            gc.enable()


def _age() -> None:
    """Have all objects be among those that are searched seldom, without a search."""
    if gc.get_freeze_count() == 0:  # what the process froze by itself stays frozen
        gc.freeze()
        gc.unfreeze()


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
