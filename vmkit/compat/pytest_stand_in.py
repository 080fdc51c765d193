"""``tvm.testing`` without pytest: what does not need it works, and the rest says that it does when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

__all__ = ["import_testing", "pytest_or_stand_in"]


class _Marks:
    """Stands for ``pytest.mark``: TVM makes marks when it is imported, which do no harm until a test gets one."""

    def __getattr__(self, name: str) -> Callable[..., Callable[..., NoReturn]]:
        return lambda *_, **__: lambda *_: _refuse(f"pytest.mark.{name}")


class _StandIn(ModuleType):
    mark = _Marks()

    def __getattr__(self, name: str) -> NoReturn:
        # The import system asks a module for such names.
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse(f"pytest.{name}")


def _refuse(what: str) -> NoReturn:
    raise ImportError(f"this part of tvm.testing needs {what}, but pytest is not installed: pip install pytest")


def pytest_or_stand_in() -> ModuleType:
    """Return pytest; where it is not installed, a module that raises ImportError for whatever is used of it."""
    try:
        return importlib.import_module("pytest")
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        return _StandIn("pytest")


def import_testing() -> ModuleType:
    """Return ``tvm.testing``, which imports pytest, whether that is installed or not."""
    pytest = pytest_or_stand_in()
    if not isinstance(pytest, _StandIn):
        return importlib.import_module("tvm.testing")
    blocked = sys.modules.get("pytest", pytest)
    sys.modules["pytest"] = pytest
    try:
        return importlib.import_module("tvm.testing")
    finally:
        # Nobody else shall take the stand-in for pytest.
        if blocked is pytest:
            del sys.modules["pytest"]
        else:
            sys.modules["pytest"] = blocked
