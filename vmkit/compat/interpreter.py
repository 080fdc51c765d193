"""``tvm.relay.backend.interpreter``: the values of data types and references, and the executors."""

from __future__ import annotations

from typing import Any

from vmkit.executor import DebugExecutor as Interpreter
from vmkit.executor import Executor
from vmkit.values import ADT, RefValue

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue"]


def ConstructorValue(tag: int, fields: Any, constructor: Any = None) -> ADT:
    """Return a value of a data type, as programs take it."""
    return ADT(tag, fields)
