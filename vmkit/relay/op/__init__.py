"""Relay's operators, by family; importing this package registers all of them.

Every module below this package is imported, so a new family is a new file and nothing else.
"""

import importlib
import pkgutil

from .registry import REGISTRY, OpEntry, OpPattern, build, entry, operator

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "build", "entry", "operator"]

for _module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
    if not _module.name.endswith(".__main__"):
        importlib.import_module(_module.name)
