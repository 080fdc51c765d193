"""Inputs and outputs that are bound before a run: onnxruntime's IOBinding."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from ..errors import suggest
from ..values.element_types import numpy_dtype
from .coverage import with_refused_members
from .element_kinds import dtype_of
from .errors import InvalidArgument
from .ort_value import OrtValue, find_memory

if TYPE_CHECKING:
    from .results import Owned
    from .session import InferenceSession

__all__ = ["BoundOutput", "IOBinding"]


@dataclass(frozen=True)
class BoundOutput:
    """Where an output goes: into a value of the caller's, or, without one, to a device."""

    device: tvm.runtime.Device
    value: OrtValue | None = None


@with_refused_members
class IOBinding:
    """What the runs of a session take and where they leave what they give; ``session.io_binding()`` makes one.

    An input stays bound until another is. Memory that a caller gives by its address must outlive the binding.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, BoundOutput] = {}
        self._results: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array, which a run takes as it is then."""
        self._inputs[self._input(name)] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: object, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to memory: to the elements of a tensor at an address of the CPU."""
        self._inputs[self._input(name)] = _at_address(device_type, device_id, element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._inputs[self._input(name)] = _checked(ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: object = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory at an address of the CPU; or, without one, have each run set memory aside.

        Parameters
        ----------
        element_type, shape, buffer_ptr
            Together: of what data type and shape the memory is, and where.
        """
        memory = find_memory(device_type, device_id)
        if buffer_ptr is None:
            value = None
        elif element_type is None or shape is None:
            raise InvalidArgument(f"output {name!r}: with buffer_ptr go element_type and shape")
        else:
            value = _at_address(device_type, device_id, element_type, shape, buffer_ptr)
        self._outputs[self._output(name)] = BoundOutput(memory, value)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to the memory of a value."""
        value = _checked(ortvalue)
        self._outputs[self._output(name)] = BoundOutput(find_memory(value.device_name()), value)

    def synchronize_inputs(self) -> None:
        """Wait until the bound inputs are where they belong."""
        self._session.wait()

    def synchronize_outputs(self) -> None:
        """Wait until the outputs are computed."""
        self._session.wait()

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return list(self._results)

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as :meth:`InferenceSession.run` returns them."""
        return [each.numpy() if each.is_tensor() else each.value for each in self._results]

    def clear_binding_inputs(self) -> None:
        """Bind no input to anything."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Bind no output to anything, and let go of those of the last run."""
        self._outputs.clear()
        self._results.clear()

    @property
    def inputs(self) -> dict[str, Any]:
        """What inputs are bound to."""
        return dict(self._inputs)

    def targets(self) -> list[Tensor | None]:
        """Return for each output of the model the tensor that it is to be in; InvalidArgument if none is bound."""
        if not self._outputs:
            raise InvalidArgument("no output is bound; bind_output says where one goes")
        bound = [self._outputs.get(arg.name) for arg in self._session.get_outputs()]
        return [None if each is None or each.value is None else each.value.target for each in bound]

    def keep(self, results: Sequence[Any], targets: Sequence[Tensor | None], owned: Owned) -> None:
        """Keep what a run gave; what could not be in its target is copied into the value that is bound."""
        names = [arg.name for arg in self._session.get_outputs()]
        self._results = []
        for name, bound in self._outputs.items():
            result, target = results[names.index(name)], targets[names.index(name)]
            if bound.value is not None:
                if target is None:
                    bound.value.update_inplace(OrtValue(result))
                self._results.append(bound.value)
            elif isinstance(result, Tensor) and result.device != bound.device:
                self._results.append(OrtValue(result.copyto(bound.device)))
            else:
                self._results.append(OrtValue(owned.kept(result)))

    def _input(self, name: str) -> str:
        session = self._session
        return _known(
            "input", name, [arg.name for arg in (*session.get_inputs(), *session.get_overridable_initializers())]
        )

    def _output(self, name: str) -> str:
        return _known("output", name, [arg.name for arg in self._session.get_outputs()])


def _known(what: str, name: str, names: list[str]) -> str:
    if name not in names:
        raise InvalidArgument(f"the model has no {what} {name!r}{suggest(str(name), names)}; it has {', '.join(names)}")
    return name


def _checked(value: OrtValue) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise InvalidArgument(f"expected an OrtValue, got a {type(value).__name__}")
    return value


def _at_address(device_type: str, device_id: int, element_type: object, shape: Sequence[int], address: int) -> OrtValue:
    """Return the tensor at an address of the CPU."""
    if find_memory(device_type, device_id) != tvm.cpu():
        raise InvalidArgument(
            f"an address on {device_type} cannot be taken: pass the tensor itself, as OrtValue.from_dlpack(tensor)"
        )
    dtype = numpy_dtype(dtype_of(element_type))
    if dtype.kind == "O":
        raise InvalidArgument("strings are not at an address; bind an array of them by bind_cpu_input")
    count = int(np.prod(tuple(shape), dtype=np.int64)) * dtype.itemsize
    raw = memoryview((ctypes.c_uint8 * count).from_address(int(address))) if count else bytearray()
    return OrtValue(np.frombuffer(raw, np.uint8).view(dtype).reshape(tuple(shape)))
