"""The backends that were held back (:mod:`.late_backends`): to import this module is to load them.

It is a module so that the interpreter's locks on modules see to it that this happens once, whoever asks for it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi
from tvm_ffi import registry

from .._deferred import without_collections
from . import OPERATOR_TABLE
from .importing import without_torch
from .late_backends import LATE, finish
from .whole import with_quick_refusals


@contextlib.contextmanager
def _registering_anew() -> Iterator[None]:
    """Have functions take the places of those that stood for them."""
    register = registry.core._register_global_func

    def over(name: str, function: Callable[..., Any] | tvm_ffi.Function, override: bool) -> tvm_ffi.Function:
        return register(name, function, True)

    registry.core._register_global_func = over  # type: ignore[assignment]
    try:
        yield
    finally:
        registry.core._register_global_func = register


def _load() -> None:
    loader: Any = importlib.import_module("tvm.backend.loader")
    load = getattr(loader.load, "__wrapped__", loader.load)
    undo = with_quick_refusals(sys.modules[OPERATOR_TABLE])
    try:
        with without_collections(), without_torch(), _registering_anew():
            for name in LATE:
                load(name)
    finally:
        undo()
    finish()


_load()
