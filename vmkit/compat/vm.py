"""``tvm.relay.vm`` and ``tvm.runtime.vm``: the compiler, its executables, and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from vmkit.compiler import vm_compiler
from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.executable.executable import Executable
from vmkit.executor import TargetLike, VMExecutor
from vmkit.relay.ir import Function
from vmkit.runtime.machine import VirtualMachine
from vmkit.target.plan import OneTarget

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]


def compile(
    mod: tvm.IRModule | Function,
    target: TargetLike = None,
    target_host: OneTarget | None = None,
    params: Mapping[str, Any] | None = None,
) -> Executable:
    """Return an executable, with the arguments of ``relay.vm.compile``; see :func:`vmkit.compile`."""
    return vm_compiler.compile(mod, target, target_host, params)
