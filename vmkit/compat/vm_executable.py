"""Relay's executable: what was built, and the runtime module that has its functions by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from vmkit import bytecode
from vmkit.executable import executable
from vmkit.target.device_types import numbered_device

__all__ = ["Executable", "ExecutableModule", "relay_executable"]


class Executable(executable.Executable):
    """An executable under the names that Relay's had; see :class:`vmkit.Executable`.

    Parameters
    ----------
    mod
        The runtime module of one, such as ``tvm.runtime.load_module`` returns for an exported library. Constants that
        are bound through either are bound for both.
    """

    def __init__(self, mod: tvm.runtime.Module | executable.Parts, *args: Any, **options: Any) -> None:
        if isinstance(mod, executable.Parts) or args or options:
            super().__init__(mod, *args, **options)
        else:
            # One object under two names: what is bound through one is bound for the other.
            self.__dict__ = (mod.executable if isinstance(mod, ExecutableModule) else _read(mod)).__dict__

    @property
    def mod(self) -> ExecutableModule:
        """The runtime module, to be exported; the signatures and the target are inside."""
        return ExecutableModule.of(self)

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels as Relay formed them: those of the operators behind ``vm_mod_fused``."""
        return [_relay_name(name) for name in super().primitive_ops]

    @property
    def virtual_devices(self) -> str:
        """The devices that the program runs on, one a line, the host's first."""
        names = dict.fromkeys(["cpu", *(self.info.devices or [self.device_kind or "cpu"])])
        devices = map(numbered_device, names)
        lines = (
            f"VM VirtualDevice[{at}]: device type {kind}, id {number}" for at, (kind, number) in enumerate(devices)
        )
        return "".join(f"{line}{'' if at else ' (using as host)'}\n" for at, line in enumerate(lines))

    @staticmethod
    def load_exec(bytecode: bytes | bytearray | str, lib: tvm.runtime.Module | None) -> Executable:
        return relay_executable(executable.Executable.load_exec(bytecode, lib))

    def described_module(self) -> tvm.runtime.Module:
        """Return a new runtime module of the program as it is now, with what is known of it inside."""
        return bytecode.module_of(self._with_note, self.libraries)

    def module_function(self, name: str) -> Callable[..., Any] | None:
        """Return a function that the runtime module of an executable had in Relay; None where it had none."""
        found = _FUNCTIONS.get(name)
        return None if found is None else lambda *args: found(self, *args)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get_bytecode": lambda exe: exe.bytecode,
    "get_constants": lambda exe: exe.constants,
    "get_function_arity": lambda exe, name: len(exe.get_function_params(name)),
    "get_function_param_name": lambda exe, name, index: exe.get_function_params(name)[index],
    "get_late_bound_consts": lambda exe, byte_limit: exe.get_late_bound_consts(byte_limit),
    "get_lib": lambda exe: exe.lib,
    "get_primitives": lambda exe: exe.primitives,
    "get_stats": lambda exe: exe.stats,
    "get_virtual_devices": lambda exe: exe.virtual_devices,
    "load_late_bound_consts": lambda exe, path: exe.load_late_bound_consts(path),
    "load_late_bound_consts_from_map": lambda exe, constants: exe.load_late_bound_consts_from_map(constants),
    "move_late_bound_consts": lambda exe, path, byte_limit: exe.move_late_bound_consts(path, byte_limit),
    "save": lambda exe: exe.save()[0],
}


def relay_executable(exe: executable.Executable) -> Executable:
    """Return an executable under Relay's names; both are the same program from now on."""
    made = Executable.__new__(Executable)
    made.__dict__ = exe.__dict__
    return made


def _read(mod: Any) -> Executable:
    return relay_executable(executable.Executable.from_module(mod))


def _relay_name(kernel: str) -> str:
    return f"vm_mod_{kernel}" if kernel.startswith("fused_") else f"vm_mod_fused_{kernel}"


class ExecutableModule(tvm.runtime.Module):
    """The runtime module of an executable, which has the functions that Relay's had, such as those that bind constants.

    It is made by :meth:`of` or :meth:`over`.
    """

    _plain: tvm.runtime.Module

    @staticmethod
    def over(module: tvm.runtime.Module) -> ExecutableModule:
        """Return a module of TVM's as one that knows the functions of its executable."""
        made = ExecutableModule.__new__(ExecutableModule)
        # A second owner of the same module: the handle that an object has can only be moved.
        made.__move_handle_from__(tvm_ffi.Array([module])[0])
        made._plain = module
        return made

    @staticmethod
    def of(exe: Executable) -> ExecutableModule:
        """Return the module of an executable as it is now."""
        made = ExecutableModule.over(exe.described_module())
        made.__dict__["executable"] = exe
        return made

    @cached_property
    def executable(self) -> Executable:
        """The executable."""
        return _read(self._plain)

    def get_function(self, name: str, query_imports: bool = False) -> Any:
        if name == "vm_load_executable":
            return self.executable.runnable().get_function(name)
        own = self.executable.module_function(name) if name in _FUNCTIONS else None
        return own if own is not None else self._plain.get_function(name, query_imports)

    def __getitem__(self, name: str) -> Any:
        return self.get_function(name)

    def export_library(self, file_name: str | Path, **options: Any) -> Any:
        """Write the program as it is now, without the constants that were moved out of it, to a shared library."""
        return self.executable.described_module().export_library(str(file_name), **options)
