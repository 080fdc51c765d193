"""``tvm.relay.backend.interpreter``: the values of data types and references, and the executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vmkit.executor import DebugExecutor as Interpreter
from vmkit.executor import Executor
from vmkit.relay.ir import Constructor
from vmkit.values.conversion import ADT, RefValue

__all__ = ["ConstructorValue", "Executor", "Interpreter", "RefValue"]


class _AnyADT(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, ADT)

    def __call__(cls, tag: int, fields: Sequence[Any], constructor: Constructor | None = None) -> ADT:
        return ADT(tag, fields)


class ConstructorValue(metaclass=_AnyADT):
    """Makes a value of a data type, as programs take it; ``isinstance`` knows those that they return."""
