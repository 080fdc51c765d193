"""``tvm.relay.vm`` and ``tvm.runtime.vm``: the compiler, its executables, and the machine."""

from __future__ import annotations

from vmkit.compiler import VMCompiler, compile
from vmkit.executable import Executable
from vmkit.executor import VMExecutor
from vmkit.machine import VirtualMachine

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]
