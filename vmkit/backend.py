"""ONNX's own backend interface: what runs vmkit under ``onnx.backend.test`` and any suite written for it.

>>> from onnx import TensorProto, helper
>>> info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
>>> graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", info[:1], info[1:])
>>> run_model(helper.make_model(graph), [np.float32([-1, 2])])[0]
array([1., 2.], dtype=float32)

Source: ``onnx.backend.base``, https://github.com/onnx/onnx/blob/main/docs/ImplementingAnOnnxBackend.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
import onnx.backend.base
from onnx import helper

from .compiler import compile, to_module
from .errors import DeviceError, InputError, OptionError, UnsupportedOperatorError
from .executable.executable import Executable
from .runtime.machine import VirtualMachine
from .target.devices import device as find_device
from .values.conversion import to_numpy

if TYPE_CHECKING:
    from .values.kinds.value import Result

__all__ = [
    "Backend",
    "BackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

Inputs: TypeAlias = Mapping[str, np.ndarray] | Sequence[np.ndarray] | np.ndarray
"""The inputs of a model: by name, in its order, or the only one."""

_OPTIONS = frozenset({"num_threads", "shapes", "target"})


class BackendRep(onnx.backend.base.BackendRep):
    """A model that is ready to run: :func:`prepare` returns one.

    Attributes
    ----------
    executable : Executable
        What was compiled.
    output_names : tuple of str
        The names of the outputs, in order.
    """

    def __init__(self, executable: Executable, machine: VirtualMachine, output_names: Sequence[str]) -> None:
        self.executable = executable
        self.output_names = tuple(output_names)
        self._machine = machine

    def run(self, inputs: Inputs, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs for some inputs, as numpy arrays that are the caller's own.

        Parameters
        ----------
        inputs : sequence, mapping or array
            The inputs in the model's order, by name, or the only one.
        """
        if kwargs:
            raise OptionError(f"a run takes no options, but was given {', '.join(map(repr, kwargs))}")
        if isinstance(inputs, Mapping):
            result = self._machine.run(**inputs)
        elif isinstance(inputs, list | tuple):
            result = self._machine.run(*inputs)
        else:
            result = self._machine.run(inputs)
        return tuple(_own(v) for v in (result if len(self.output_names) > 1 else (result,)))


def _own(value: Result) -> np.ndarray | list[Any] | None:
    """Return a result as an array that shares no memory with an input or the program; sequences become lists."""
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return [_own(v) for v in value]
    return np.array(to_numpy(value))


class Backend(onnx.backend.base.Backend):
    """vmkit as a backend of ONNX; its methods are the functions of this module."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Say whether a model can be prepared for a device: it is imported, but not compiled."""
        _options(kwargs)
        if not cls.supports_device(device):
            return False
        try:
            to_module(model, shapes=kwargs.get("shapes"))
        except UnsupportedOperatorError:
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Return a model compiled for a device.

        Parameters
        ----------
        model : ModelProto or path
            The model.
        device : str
            ``"CPU"``, ``"CUDA"`` or ``"CUDA:1"``, as ONNX writes devices.
        **kwargs
            ``target`` and ``shapes`` of :func:`vmkit.compile`, ``num_threads`` of :class:`vmkit.VirtualMachine`.

        Raises
        ------
        ModelError, UnsupportedOperatorError
            When the model is at fault.
        DeviceError
            When the device is absent.
        """
        _options(kwargs)
        name = _device_name(device)
        place = find_device(name)
        target = kwargs.get("target") or (None if name.startswith("cpu") else name.partition(":")[0])
        executable = compile(model, target, shapes=kwargs.get("shapes"))
        machine = VirtualMachine(executable, place, num_threads=kwargs.get("num_threads"))
        outputs = (
            onnx.load(model, load_external_data=False).graph.output if isinstance(model, str) else model.graph.output
        )
        return BackendRep(executable, machine, [o.name for o in outputs])

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Inputs, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of a model that is compiled for this one run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Return the outputs of one node.

        Parameters
        ----------
        node : NodeProto
            The node.
        inputs : sequence or mapping of arrays
            Its inputs, those that it leaves out excepted.
        outputs_info : sequence, optional
            Data type and shape of the outputs, which vmkit finds by itself.
        **kwargs
            Those of :meth:`prepare`, and ``opset_version``, by default the newest.
        """
        opset = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = list(dict.fromkeys(name for name in node.input if name))
        given = [inputs[n] for n in names] if isinstance(inputs, Mapping) else list(inputs)
        if len(given) != len(names):
            raise InputError(f"the node reads {', '.join(names) or 'nothing'}, but {len(given)} inputs were given")
        arrays = [np.asarray(v) for v in given]
        graph = helper.make_graph(
            [node],
            "node",
            [_value_info(name, array) for name, array in zip(names, arrays, strict=True)],
            [onnx.ValueInfoProto(name=name) for name in node.output if name],
        )
        imports = [helper.make_opsetid(node.domain, opset if node.domain in ("", "ai.onnx") else 1)]
        return cls.run_model(helper.make_model(graph, opset_imports=imports), arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Say whether there is a device, such as ``"CPU"`` or ``"CUDA:1"``, to run on."""
        try:
            find_device(_device_name(device))
        except DeviceError:
            return False
        return True


def _device_name(device: str) -> str:
    return device.lower()


def _options(given: Mapping[str, Any]) -> None:
    unknown = sorted(set(given) - _OPTIONS)
    if unknown:
        raise OptionError(f"unknown options {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")


def _value_info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
