"""``tvm.relay.vm`` and ``tvm.runtime.vm``: the compiler, its executables, and the machine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm.runtime import Device

from vmkit.compiler import vm_compiler
from vmkit.executable import executable
from vmkit.executable.any_extents import of_any_extents
from vmkit.executor import VMExecutor
from vmkit.relay.ir import Function
from vmkit.relay.transform import FuseOps, LambdaLift, ManifestAlloc, ManifestLifetimes, ToANormalForm
from vmkit.runtime import RemoteMachine, machine
from vmkit.runtime.outputs import Targets
from vmkit.target import canonical_target
from vmkit.values.signature import Signature

from .vm_executable import Executable, ExecutableModule, relay_executable

__all__ = ["Executable", "VMCompiler", "VMExecutor", "VirtualMachine", "compile"]


def compile(
    mod: tvm.IRModule | Function, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> Executable:
    """Return an executable for a module, as :func:`vmkit.compile` makes it, under Relay's signature."""
    return relay_executable(vm_compiler.compile(mod, target, target_host, params))


class VMCompiler(vm_compiler.VMCompiler):
    """The compiler in stages, whose executable has the names that Relay's had."""

    def get_exec(self) -> Executable:
        return relay_executable(super().get_exec())

    def optimize(
        self,
        mod: tvm.IRModule,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[tvm.IRModule, dict[str, Any]]:
        """Return the optimised Relay module as Relay handed it to its virtual machine, and the parameters left.

        Kernels are functions, values have names, and memory is asked for and given up; :meth:`lower` goes on from the
        module before that.
        """
        optimized, left = super().optimize(mod, target, target_host, params)
        plan = canonical_target(target, target_host)
        with plan.primary:
            for each in (FuseOps(), ToANormalForm(), LambdaLift(), ManifestAlloc(plan), ManifestLifetimes()):
                optimized = each(optimized)
        return optimized, left


class VirtualMachine(machine.VirtualMachine):
    """The machine as scripts for Relay call it; see :class:`vmkit.VirtualMachine`.

    Arguments of another data type or rank than is declared are converted where that loses nothing. Positional
    arguments fill the places that keywords leave, and keywords that are no parameters are left out with a warning. A
    program that only hands values on takes tensors of any extents. For a module that an RPC session loaded this is a
    :class:`vmkit.runtime.RemoteMachine`.
    """

    def __new__(
        cls,
        exe: executable.Executable | tvm.runtime.Module,
        device: Any = "cpu",
        memory_cfg: Any = None,
        **_: Any,
    ) -> Any:
        if isinstance(exe, tvm.runtime.Module) and exe.kind == "rpc":
            return RemoteMachine(exe, device, memory_cfg)
        return super().__new__(cls)

    def __init__(
        self,
        exe: executable.Executable | tvm.runtime.Module,
        device: str | Device | Sequence[str | Device] = "cpu",
        memory_cfg: str | Mapping[Device | str, str] | None = None,
        **options: Any,
    ) -> None:
        known = exe.executable if isinstance(exe, ExecutableModule) else exe
        if not isinstance(known, executable.Executable):
            known = relay_executable(executable.Executable.from_module(known))
        super().__init__(of_any_extents(known), device, memory_cfg, **options)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return super().run(*self._fitted("main", args, kwargs))

    __call__ = run

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        return super().invoke(func_name, *self._fitted(func_name, args, kwargs))

    def invoke_into(
        self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any], targets: Targets
    ) -> tuple[Any, ...]:
        return super().invoke_into(func_name, self._fitted(func_name, args, kwargs), {}, targets)

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        super().set_input(func_name, *self._fitted(func_name, args, kwargs))

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        if (len(args), len(kwargs)) in ((2, 0), (0, 1)):
            tag, value = args or next(iter(kwargs.items()))
            inputs = self._find(func_name).entry.signature.inputs
            at = tag if isinstance(tag, int) else self.get_input_index(tag, func_name)
            if 0 <= at < len(inputs):
                args, kwargs = (at, *Signature(func_name, (inputs[at],)).fit([value])), {}
        super().set_one_input(func_name, *args, **kwargs)

    def benchmark(self, device: str | Device, *args: Any, func_name: str = "main", **options: Any) -> Any:
        inputs = self._find(func_name).entry.signature.names
        by_name = {name: options.pop(name) for name in inputs if name in options}
        return super().benchmark(device, *self._fitted(func_name, args, by_name), func_name=func_name, **options)

    def _fitted(self, func_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the values of a call by position; nothing for a call on inputs that were set."""
        if not args and not kwargs:
            return []
        signature = self._find(func_name).entry.signature
        return signature.fit(_bound(signature, args, kwargs))


def _bound(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    named = {name: value for name, value in kwargs.items() if name in signature.names}
    unused = ", ".join(sorted(set(kwargs) - set(named)))
    if unused:
        warnings.warn(f"keyword arguments that {signature.name} does not take are left out: {unused}", stacklevel=5)
    free = [name for name in signature.names if name not in named]
    if len(args) > len(free):
        return signature.bind(args, named)
    return signature.bind((), {**named, **dict(zip(free, args, strict=False))})
