"""``tvm.relay.backend``: what its submodules hold is found by import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import interpreter, te_compiler, vm

__all__ = ["Executor", "Runtime", "interpreter", "te_compiler", "vm"]


@dataclass(frozen=True)
class Executor:
    """Which executor ``relay.build`` was asked for; the virtual machine runs the model whichever it is."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """Which runtime ``relay.build`` was asked for."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
