"""vmkit: the Relay VM for today's TVM.

The names below are found when first used, so that ``import vmkit`` imports neither TVM nor onnx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vmkit._later import named_later
from vmkit._tvm.importing import install
from vmkit._version import __version__, require_compatible_tvm

if TYPE_CHECKING:
    from vmkit import byoc, cache, errors, mlf, onnxruntime, pages, profiling, relay, tophub
    from vmkit.compiler.convert import convert
    from vmkit.compiler.options import PassContext
    from vmkit.compiler.vm_compiler import VMCompiler, compile
    from vmkit.executable.executable import Executable
    from vmkit.executable.loading import load
    from vmkit.executor import VMExecutor
    from vmkit.frontend.onnx.folder import load_model
    from vmkit.frontend.onnx.report import check
    from vmkit.onnxruntime.session import InferenceSession
    from vmkit.runtime.machine import VirtualMachine
    from vmkit.target.devices import device
    from vmkit.values.conversion import ADT, RefValue

__all__ = [
    "ADT",
    "Executable",
    "InferenceSession",
    "PassContext",
    "RefValue",
    "VMCompiler",
    "VMExecutor",
    "VirtualMachine",
    "__version__",
    "byoc",
    "cache",
    "check",
    "compile",
    "convert",
    "device",
    "errors",
    "load",
    "load_model",
    "mlf",
    "onnxruntime",
    "pages",
    "profiling",
    "relay",
    "tophub",
]

require_compatible_tvm()
install()

__getattr__, __dir__ = named_later(__name__)
