"""``tvm.contrib.graph_executor`` and ``relay.build``: static models, on the virtual machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import tvm
from tvm.runtime import Device, Tensor

from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.errors import InputError, suggest
from vmkit.executable.executable import Executable
from vmkit.executable.loading import load as load_executable
from vmkit.executor import TargetLike, VMExecutor
from vmkit.relay.ir import Function
from vmkit.runtime.machine import BenchmarkResult, VirtualMachine
from vmkit.target.plan import OneTarget
from vmkit.values.param_dict import load_param_dict
from vmkit.values.signature import Spec, TensorSpec

if TYPE_CHECKING:
    from .names import Executor, Runtime

__all__ = ["BuiltModule", "GraphExecutor", "GraphModule", "build", "create", "load_module"]

# What unpacking a built model gives for the graph.
_GRAPH_INSIDE = "the graph is inside the library"

logger = logging.getLogger(__name__)

V = TypeVar("V")
Input: TypeAlias = np.ndarray | np.generic | Tensor | float | tuple[Any, ...]
"""What a model takes: an array, a number, or a tuple of them."""


class BuiltModule:
    """What ``relay.build`` returns: ``lib["default"](device)`` is the model on a device.

    Attributes
    ----------
    executable : Executable
        The program; the parameters are inside.
    """

    def __init__(self, executable: Executable) -> None:
        self.executable = executable

    def __getitem__(self, name: str) -> Callable[..., GraphModule]:
        if name != "default":
            raise KeyError(f"a built model has one module, 'default', not {name!r}")
        return lambda *devices: GraphModule(VirtualMachine(self.executable, list(devices) or "cpu"))

    def __iter__(self) -> Iterator[Any]:
        """Unpack into ``graph, lib, params``, for :func:`create`; the graph and the parameters are inside lib."""
        return iter((_GRAPH_INSIDE, self, self.get_params()))

    @property
    def lib(self) -> tvm.runtime.Module | None:
        """The library of kernels; None for a program that has none."""
        return self.executable.lib

    def get_source(self, fmt: str = "") -> str:
        """Return the kernels' source: LLVM's IR, or assembly for ``"asm"``."""
        return "" if self.lib is None else str(self.lib.inspect_source(fmt))

    def export_library(self, file_name: str | Path, fcompile: Callable[..., Any] | None = None, **_: Any) -> None:
        """Write the model to a file, which ``tvm.runtime.load_module`` reads; it is a vmkit executable.

        `fcompile` links the kernels where it makes shared libraries, such as ``cc.cross_compiler(...)``.
        """
        links = getattr(fcompile, "output_format", None) == "so"
        self.executable.export(file_name, linker=fcompile if links else None)

    def get_params(self) -> dict[str, Tensor]:
        """Return the parameters that are kept apart: none, they are inside the executable."""
        return {}

    def get_lib(self) -> tvm.runtime.Module | None:
        """Return the library of kernels."""
        return self.lib


class GraphModule:
    """A model with its inputs and outputs, as the graph executor had it.

    Parameters
    ----------
    module : GraphModule or VirtualMachine
        What ``lib["default"](device)`` gave.
    """

    def __init__(self, module: GraphModule | VirtualMachine) -> None:
        self.vm: VirtualMachine = module.vm if isinstance(module, GraphModule) else module
        self.module = self
        self._inputs: dict[str, Any] = {}
        self._outputs: list[Any] = []

    @property
    def _names(self) -> tuple[str, ...]:
        return self.vm.executable.signature.names

    def set_input(self, key: str | int | None = None, value: Input | None = None, **params: Any) -> None:
        """Set one input by name or position, and others by keyword; keywords that are no inputs are left out."""
        if key is not None:
            self._set(self._name(key), value)
        self._set_known(params)

    def _set_known(self, params: Mapping[str, Any]) -> None:
        for name, array in params.items():
            # Scripts set the weights once more; relay.build has put them inside.
            if name in self._names:
                self._set(name, array)
            else:
                logger.info("set_input: the model has no input %s; weights that were given to build are inside", name)

    def _set(self, name: str, value: Input | None) -> None:
        self._inputs[name] = converted(value, self.vm.executable.inputs[self._names.index(name)])

    def _name(self, key: str | int) -> str:
        names = self._names
        if isinstance(key, int) and 0 <= key < len(names):
            return names[key]
        if key not in names:
            close = suggest(str(key), names)
            raise InputError(f"the model has no input {key!r}{close}; it has {', '.join(names)} (parameters are bound)")
        return str(key)

    def run(self, **inputs: Any) -> None:
        """Run the model on the inputs that are set."""
        self.set_input(**inputs)
        result = self.vm.run(**self._inputs) if self._names else self.vm.run()
        self._outputs = list(result) if isinstance(result, tuple) else [result]

    def get_num_outputs(self) -> int:
        """Return how many outputs the model has."""
        return len(self.vm.executable.outputs)

    def get_num_inputs(self) -> int:
        """Return how many inputs the model has."""
        return len(self._names)

    def get_input(self, index: str | int, out: Tensor | None = None) -> Input | None:
        """Return an input that was set."""
        value = self._inputs[self._name(index)]
        return value if out is None else tvm.runtime.tensor(np.asarray(value)).copyto(out)

    def get_input_index(self, name: str) -> int:
        """Return the position of an input, or -1."""
        return self.vm.get_input_index(name)

    def get_input_info(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the shapes and the data types of the inputs by name."""
        specs = self.vm.executable.inputs
        return {s.name: getattr(s, "shape", ()) for s in specs}, {s.name: getattr(s, "dtype", "") for s in specs}

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output of the last run, or copy it into a tensor."""
        if not self._outputs:
            raise InputError("there are no outputs yet, call run first")
        return self._outputs[index] if out is None else self._outputs[index].copyto(out)

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from the bytes of ``relay.save_param_dict``."""
        self._set_known(load_param_dict(params_bytes))

    def benchmark(self, device: Device, func_name: str = "run", **options: Any) -> BenchmarkResult:
        """Return the seconds that a run takes; see :meth:`vmkit.VirtualMachine.benchmark`."""
        return self.vm.benchmark(device, **options, **self._inputs)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> Callable[[], BenchmarkResult]:
        """Return a function that measures runs on the inputs that are set."""
        if func_name != "run":
            raise InputError(f"a model is timed by its function 'run', not {func_name!r}")
        return lambda: self.benchmark(
            dev,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )


class GraphExecutor(VMExecutor):
    """The executor of kind ``"graph"``: the virtual machine, with inputs converted as the graph executor did."""

    def _make_executor(self, expr: Function | None = None) -> Callable[..., Any]:
        run = super()._make_executor(expr)
        assert self.executable is not None
        specs = self.executable.inputs
        names = [spec.name for spec in specs]

        def convert_and_run(*args: Any, **kwargs: Any) -> Any:
            by_name = {k: converted(v, specs[names.index(k)]) if k in names else v for k, v in kwargs.items()}
            return run(*map(converted, args, specs), *args[len(specs) :], **by_name)

        return convert_and_run


def converted(value: V, spec: Spec) -> V | np.ndarray:
    """Return an input as the graph executor took it: numpy's arrays and numbers in the data type of the input."""
    if isinstance(spec, TensorSpec) and isinstance(value, np.ndarray | np.generic | bool | int | float):
        array = np.asarray(value)
        # bfloat16 came as uint16, its bits.
        if array.dtype.kind in "biuf" and spec.dtype != "bfloat16":
            return array.astype(spec.dtype, copy=False)
    return value


def build(
    ir_mod: tvm.IRModule | Function,
    target: TargetLike = None,
    target_host: OneTarget | None = None,
    executor: Executor | None = None,
    runtime: Runtime | None = None,
    workspace_memory_pools: Sequence[Any] | None = None,
    constant_memory_pools: Sequence[Any] | None = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> BuiltModule:
    """Return a model compiled for a target, with ``relay.build``'s signature. It runs on the virtual machine."""
    if workspace_memory_pools is not None or constant_memory_pools is not None:
        raise InputError("memory pools are of the ahead-of-time executor, which is gone")
    if executor is not None or runtime is not None:
        logger.warning("relay.build: executor and runtime are not chosen any more; the virtual machine runs the model")
    mod = tvm.IRModule({"main": ir_mod}) if isinstance(ir_mod, Function) else ir_mod
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return BuiltModule(compiler.get_exec())


def create(graph_json_str: str, libmod: BuiltModule, device: Device | Sequence[Device]) -> GraphModule:
    """Return a built model on a device, from the ``graph, lib`` that ``relay.build`` gave."""
    if not isinstance(libmod, BuiltModule) or graph_json_str != _GRAPH_INSIDE:
        raise InputError(
            "a graph in the graph executor's JSON cannot be run any more: build the model with relay.build and pass "
            "the graph and lib that it gives"
        )
    return libmod["default"](*device if isinstance(device, list | tuple) else [device])


_own_load_module = tvm.runtime.load_module


def load_module(path: str | Path, fmt: str = "") -> BuiltModule | tvm.runtime.Module:
    """Return what ``export_library`` wrote: a built model, or any other module of TVM's."""
    with open(path, "rb") as file:
        is_executable = file.read(4) == b"PK\x03\x04"
    return BuiltModule(load_executable(path)) if is_executable else _own_load_module(str(path))
