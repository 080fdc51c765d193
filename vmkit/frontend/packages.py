"""Packages that only one way in needs, imported when it is taken."""

from __future__ import annotations

import importlib
from types import ModuleType

from ..errors import UnavailableError

__all__ = ["needed"]


def needed(module: str, package: str, way: str) -> ModuleType:
    """Return a module of a package that need not be installed.

    Parameters
    ----------
    module, package : str
        The module, and what pip calls the package that has it.
    way : str
        What it is needed for.

    Raises
    ------
    UnavailableError
        Where it is not installed, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(f"{way} needs the package {package}: pip install {package} ({error})") from error
