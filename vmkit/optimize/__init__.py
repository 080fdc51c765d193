"""Passes that make a Relay module fast on a processor, and the operators that they introduce.

Every module of this package is imported, so that its passes are found by their names, here and in ``relay.transform``.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..relay.transform import __getattr__  # noqa: F401 - passes by their names
from . import ops

__all__ = ["ops"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
