"""Operators that Relay never had: what passes make of others so that one written kernel computes them."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
