"""``tvm.relay.vm`` and ``tvm.runtime.vm``: the compiler, its executables, and the machine."""

from __future__ import annotations

from vmkit.compiler.vm_compiler import VMCompiler, compile
from vmkit.executable.executable import Executable
from vmkit.executor import VMExecutor
from vmkit.runtime.machine import VirtualMachine

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]
