"""``GraphModule``: a model with its inputs and outputs, as Relay's graph executor had it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
import tvm_ffi
from tvm.runtime import Device, Tensor

from vmkit.errors import InputError, UnavailableError, suggest
from vmkit.runtime.machine import BenchmarkResult, VirtualMachine
from vmkit.values.element_types import numpy_dtype
from vmkit.values.kinds.spec import describe
from vmkit.values.param_dict import load_param_dict
from vmkit.values.signature import Spec

from .graph_values import Input, check_unchanged, converted, copied, info_by_name, is_static, leaf_specs, leaves

if TYPE_CHECKING:
    from .built_module import BuiltModule

__all__ = ["GraphModule"]

logger = logging.getLogger(__name__)


class GraphModule:
    """A model with its inputs and outputs, as the graph executor had it.

    Parameters
    ----------
    module : GraphModule or VirtualMachine
        What ``lib["default"](device)`` gave.
    constants : mapping of str to Tensor, optional
        What is inside the model, by the names that the graph has for it: it can be set to what it is, and to nothing
        else.
    built : BuiltModule, optional
        What it was made by.

    Notes
    -----
    Results are counted as the graph executor did: a tuple in a tuple is the tensors that it is made of.
    """

    _is_remote = False
    built: BuiltModule | None

    def __new__(cls, module: GraphModule | VirtualMachine, *_: Any, **__: Any) -> Any:
        # What runs elsewhere stays that when it is wrapped once more.
        remote = cls is GraphModule and isinstance(module, GraphModule) and module._is_remote
        return super().__new__(type(module) if remote else cls)

    def __init__(
        self,
        module: GraphModule | VirtualMachine,
        constants: Callable[[], Mapping[str, Tensor]] = dict,
        built: BuiltModule | None = None,
    ) -> None:
        self.vm: VirtualMachine
        self._constants: Callable[[], Mapping[str, Tensor]]
        if isinstance(module, GraphModule):
            self.vm, self._constants, built = module.vm, module._constants, module.built
        else:
            self.vm, self._constants = module, constants
        self.built = built
        self.module = self
        self._inputs: dict[str, Any] = {}
        self._outputs: list[Any] | None = None
        self._targets: dict[int, Tensor] = {}
        self._functions: dict[str, Callable[..., Any]] = {
            "get_input": self.get_input,
            "get_input_index": self.get_input_index,
            "get_input_info": self.get_input_info,
            "get_num_inputs": self.get_num_inputs,
            "get_num_outputs": self.get_num_outputs,
            "get_output": self.get_output,
            "get_output_index": self.get_output_index,
            "get_output_info": self.get_output_info,
            "load_params": self.load_params,
            "run": self.run,
            "set_input": self.set_input,
            "set_input_zero_copy": self.set_input_zero_copy,
            "set_output_zero_copy": self.set_output_zero_copy,
            "share_params": self.share_params,
        }

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return one of the functions by its name, as ``module["set_input"]("x", value)``."""
        if name not in self._functions:
            raise AttributeError(f"a graph module has no function {name!r}{suggest(name, self._functions)}")
        return self._functions[name]

    @property
    def _names(self) -> tuple[str, ...]:
        return self.vm.executable.signature.names

    def set_input(self, key: str | int | None = None, value: Input | None = None, **params: Any) -> None:
        """Copy one input by name or position, and others by keyword; keywords that are no inputs are left out."""
        if key is not None:
            self._set(self._name(key), value)
        self._set_known(params)

    def set_input_zero_copy(self, key: str | int, value: Tensor) -> None:
        """Set one input to a tensor that the model reads at each run: what is written into it later counts."""
        name = self._name(key)
        given = self._fitted(name, value)
        if given is not value:
            raise InputError(f"{name} is to be read in place, and {describe(value)} would have to be converted")
        self._inputs[name] = value

    def set_output_zero_copy(self, index: str | int, value: Tensor) -> None:
        """Have each run write an output, by its name or position, into a tensor."""
        at = self.get_output_index(index) if isinstance(index, str) else index
        if not 0 <= at < self.get_num_outputs():
            raise InputError(f"the model has {self.get_num_outputs()} outputs, there is none of index {index!r}")
        self._targets[at] = value

    def _set_known(self, params: Mapping[str, Any]) -> None:
        for name, array in params.items():
            # Scripts set the weights once more; relay.build has put them inside.
            if name in self._names:
                self._set(name, array)
            elif name in (constants := self._constants()):
                check_unchanged(name, array, constants[name])
            else:
                logger.info("set_input: the model has no input %s; weights that were given to build are inside", name)

    def _set(self, name: str, value: Input | None) -> None:
        self._inputs[name] = copied(self._fitted(name, value))

    def _fitted(self, name: str, value: Input | None) -> object:
        return converted(value, self.vm.executable.inputs[self._names.index(name)])

    def _set_missing(self) -> None:
        """Set what nobody has set to zeros: the graph executor had memory for each input, whatever was in it."""
        for spec in self.vm.executable.inputs:
            if spec.name not in self._inputs and is_static(spec):
                logger.warning("run: input %s has not been set and is zero", spec.name)
                self._inputs[spec.name] = np.zeros(spec.shape, numpy_dtype(spec.dtype))

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
        self._set_missing()
        result = self.vm.run(**self._inputs) if self._names else self.vm.run()
        self._outputs = list(leaves(result))
        for at, target in self._targets.items():
            self._outputs[at] = self._outputs[at].copyto(target)

    def get_num_outputs(self) -> int:
        """Return how many outputs the model has."""
        return len(self._output_specs())

    def get_num_inputs(self) -> int:
        """Return how many inputs the model has."""
        return len(self._names)

    def get_input(self, index: str | int, out: Tensor | None = None) -> Input | None:
        """Return an input that was set."""
        value = self._inputs.get(self._name(index))
        if out is None:
            return (
                value if value is None or isinstance(value, Tensor | tuple) else tvm.runtime.tensor(np.asarray(value))
            )
        return tvm.runtime.tensor(np.asarray(value)).copyto(out)

    def get_input_index(self, name: str) -> int:
        """Return the position of an input, or -1."""
        return self.vm.get_input_index(name)

    def get_input_info(self) -> tuple[tvm_ffi.Map, tvm_ffi.Map]:
        """Return the shapes and the data types of the inputs by name."""
        return info_by_name({spec.name: spec for spec in self.vm.executable.inputs})

    def get_output_info(self) -> tuple[tvm_ffi.Map, tvm_ffi.Map]:
        """Return the shapes and the data types of the outputs by name."""
        return info_by_name(self._named_outputs())

    def get_output_index(self, name: str) -> int:
        """Return the position of an output, or -1."""
        names = list(self._named_outputs())
        return names.index(name) if name in names else -1

    def _output_specs(self) -> list[Spec]:
        return [leaf for spec in self.vm.executable.outputs for leaf in leaf_specs(spec)]

    def _named_outputs(self) -> dict[str, Spec]:
        return {spec.name or f"output_{i}": spec for i, spec in enumerate(self._output_specs())}

    def get_output(self, index: int, out: Tensor | None = None) -> Tensor:
        """Return an output of the last run, or copy it into a tensor."""
        if self._outputs is None:
            raise InputError("there are no outputs yet, call run first")
        if not 0 <= index < len(self._outputs):
            raise InputError(f"the model has {len(self._outputs)} outputs, there is none of index {index}")
        return self._outputs[index] if out is None else self._outputs[index].copyto(out)

    def load_params(self, params_bytes: bytes) -> None:
        """Set inputs from the bytes of ``relay.save_param_dict``."""
        self._set_known(load_param_dict(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes) -> None:
        """Take inputs that are set in another module; `params_bytes`, of ``save_param_dict``, has their names."""
        self._set_known({n: v for n in load_param_dict(params_bytes) if (v := other._inputs.get(n)) is not None})

    def debug_get_output(self, node: int | str, out: Tensor | None = None) -> Tensor:
        """Refuse to run up to a node: kernels are of several of them."""
        raise UnavailableError(
            "a value within a model is not kept; tvm.contrib.debugger.debug_executor runs a model node by node"
        )

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **inputs: Any,
    ) -> BenchmarkResult:
        """Return the seconds that a run takes, on inputs that are set or given here.

        See :meth:`vmkit.VirtualMachine.benchmark`.
        """
        if func_name != "run" and not end_to_end:
            raise InputError(f"a model is timed by its function 'run', not {func_name!r}")
        self.set_input(**inputs)
        self._set_missing()
        return self.vm.benchmark(
            device,
            repeat=repeat,
            number=number,
            min_repeat_ms=min_repeat_ms,
            limit_zero_time_iterations=limit_zero_time_iterations,
            end_to_end=end_to_end,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
            **self._inputs,
        )

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
