"""vmkit: the Relay VM for today's TVM.

The names below are found when first used, so that ``import vmkit`` imports neither TVM nor onnx.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vmkit._version import __version__, require_compatible_tvm
from vmkit.errors import suggest

if TYPE_CHECKING:
    from vmkit import errors, relay, tophub
    from vmkit.compiler import VMCompiler, compile
    from vmkit.devices import device
    from vmkit.executable import Executable, load
    from vmkit.executor import VMExecutor
    from vmkit.frontend.onnx.report import check
    from vmkit.machine import VirtualMachine
    from vmkit.options import PassContext
    from vmkit.values import ADT, RefValue

__all__ = [
    "ADT",
    "Executable",
    "PassContext",
    "RefValue",
    "VMCompiler",
    "VMExecutor",
    "VirtualMachine",
    "__version__",
    "check",
    "compile",
    "device",
    "errors",
    "load",
    "relay",
    "tophub",
]

_HOMES = {
    "ADT": "vmkit.values",
    "Executable": "vmkit.executable",
    "PassContext": "vmkit.options",
    "RefValue": "vmkit.values",
    "VMCompiler": "vmkit.compiler",
    "VMExecutor": "vmkit.executor",
    "VirtualMachine": "vmkit.machine",
    "check": "vmkit.frontend.onnx.report",
    "compile": "vmkit.compiler",
    "device": "vmkit.devices",
    "load": "vmkit.executable",
}
_SUBPACKAGES = frozenset({"errors", "relay", "tophub"})

require_compatible_tvm()


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"vmkit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'vmkit' has no attribute {name!r}{suggest(name, __all__)}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
