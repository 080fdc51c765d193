"""Passes that make a Relay module fast on a processor, and the operators that they introduce.

Every module of this package is imported, and the passes that are defined in it are found here by their names:
``optimize.FlattenRows()``.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..relay.transform.registry import passes_by_name
from . import ops

__all__ = ["ops"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__getattr__, __dir__ = passes_by_name(__name__, "optimize", __all__)
