"""Results in tensors of the caller's: written there by the program where it can be, and copied there else."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm.runtime import Device, Tensor

from .._tvm import tensor_view
from ..bytecode.given_outputs import GIVEN_OUTPUT, with_given_outputs
from ..errors import InputError
from ..executable.executable import Executable
from ..values.element_types import element_bytes
from ..values.host_memory import ALIGNMENT
from .calls import Entry, call_of
from .instance import Instance

if TYPE_CHECKING:
    from ..values.kinds.value import Given, Result, RuntimeValue

__all__ = ["GivenOutputs", "Targets", "copy_outputs"]

MemoryConfig: TypeAlias = "str | Mapping[Device | str, str] | None"
"""Which allocators a machine has: see :class:`vmkit.VirtualMachine`."""

Targets: TypeAlias = Sequence[Tensor | None]
"""A tensor for each output, None for one that the program is to allocate."""


def copy_outputs(result: Result, targets: Targets) -> None:
    """Copy a result, or each field of a tuple, into a tensor of its dtype and shape, if it is not there already.

    Raises
    ------
    InputError
        If a tensor does not fit, before any is copied to.
    """
    outputs = result if isinstance(result, tuple) else (result,)
    if len(outputs) != len(targets):
        raise InputError(
            "Number of outside output tensors should be equal to model outputs number: "
            f"{len(targets)} given, {len(outputs)} returned"
        )
    pairs = [pair for pair in zip(outputs, targets, strict=True) if pair[1] is not None]
    for index, (output, target) in enumerate(zip(outputs, targets, strict=True)):
        if target is not None:
            _check_output(index, output, target)
    for output, target in pairs:
        assert isinstance(output, Tensor) and target is not None
        if output.data_ptr() != target.data_ptr():
            output.copyto(target)


def _check_output(index: int, output: Result, target: Tensor) -> None:
    if not isinstance(target, Tensor):
        kind = type(target).__name__
        raise InputError(f"output {index} is given a {kind}, expected a Tensor, as tvm.runtime.empty(shape, dtype) is")
    if not isinstance(output, Tensor):
        raise InputError(f"output {index} is no tensor, so nothing can be given that it is written into; pass None")
    inside, outside = tuple(output.shape), tuple(target.shape)
    if str(output.dtype) != str(target.dtype):
        what = "Data types mismatching for internal and external output tensors"
        raise InputError(f"{what}: output {index} is {output.dtype}, the tensor given is {target.dtype}")
    if math.prod(inside) != math.prod(outside):
        what = "Element number mismatching of internal and external output tensors"
        raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")
    if inside != outside:
        what = "Internal and external output tensor shapes are mismatched"
        raise InputError(f"{what}: output {index} has shape {inside}, the tensor given {outside}")


class GivenOutputs:
    """A function of a program in the form that writes its results into tensors of the caller's.

    It is another instance of the program, made when it is first needed.

    Parameters
    ----------
    entry
        The function as it is else.
    instance
        The program as it is now, with its results allocated.
    """

    def __init__(self, entry: Entry, instance: Instance) -> None:
        self._call = call_of(replace(entry, function=self._run), instance)
        self.cancel = instance.cancel
        self._function = instance.module[entry.signature.name]
        self._inputs = entry.inputs
        self._device = instance.device
        self._targets: list[Tensor | None] = []
        # One call at a time has its targets here.
        self._lock = threading.Lock()

    @staticmethod
    def of(executable: Executable, entry: Entry, base: Instance, memory_cfg: MemoryConfig) -> GivenOutputs | None:
        """Return a function in this form; None for one whose results are not all tensors, or whose code is not told."""
        signature = entry.signature
        if entry.restored is not None or not signature.is_flat or base.texts is not None:
            return None
        program = with_given_outputs(executable.program, signature.name)
        if program is None:
            return None
        own = Executable(executable.with_program(program), None, executable.built_for, executable.info)
        instance = Instance(own, base.devices, memory_cfg, base.check_inputs, base.num_threads, base.limits)
        return GivenOutputs(entry, instance)

    def call(self, args: Sequence[Given], kwargs: Mapping[str, Given], targets: Targets) -> Result:
        """Return the results, those that could be in their targets; the others as the program allocated them."""
        values = [*args, *kwargs.values()] or self._inputs.kept
        with self._lock:
            self._targets = self._writable(values, targets)
            try:
                return self._call.call(args, kwargs)
            finally:
                self._targets = []

    def _run(self, *values: RuntimeValue) -> RuntimeValue:
        # On the thread that runs the program, which is not always the caller's.
        before = _here.targets, _here.device
        _here.targets, _here.device = self._targets, self._device
        try:
            return self._function(*values)
        finally:
            _here.targets, _here.device = before

    def _writable(self, values: Sequence[object], targets: Targets) -> list[Tensor | None]:
        """Return the targets that kernels can write to while they read the inputs, None in the place of others."""
        ranges = [_memory(value) for value in values]
        found: list[Tensor | None] = []
        for target in targets:
            begin, end = _memory(target)
            is_apart = all(end <= other or begin >= last for other, last in ranges)
            is_ready = isinstance(target, Tensor) and target.device == self._device and target.is_contiguous()
            found.append(target if is_ready and is_apart and begin < end and begin % ALIGNMENT == 0 else None)
            ranges.append((begin, end))
        return found


def _memory(value: object) -> tuple[int, int]:
    """Return the addresses that the elements of an array or tensor lie between."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            return np.lib.array_utils.byte_bounds(value)
        begin = int(value.__array_interface__["data"][0])
        return begin, begin + value.nbytes
    if isinstance(value, Tensor):
        begin = int(value.data_ptr())
        return begin, begin + value.numel() * _element_bytes(str(value.dtype))
    if hasattr(value, "__dlpack__"):
        # Of another library: where it lies is not looked into, so it may be anywhere.
        return 0, 1 << 64
    return 0, 0


_element_bytes = functools.lru_cache(maxsize=64)(element_bytes)


class _Here(threading.local):
    """Where the program that runs on this thread is to write its results."""

    targets: Targets = ()
    device: Device = tvm.runtime.cpu()


_here = _Here()


@tvm_ffi.register_global_func(GIVEN_OUTPUT, override=True)
def _given_output(place: int, shape: Sequence[int], dtype: object) -> Tensor:
    """Return the caller's tensor for a result if it fits, else a new one, which is compared with the caller's later."""
    targets = _here.targets
    target = targets[place] if place < len(targets) else None
    extents = tuple(shape)
    if target is not None and str(target.dtype) == str(dtype):
        own = tuple(target.shape)
        if own == extents:
            return target
        if math.prod(own) == math.prod(extents):
            return tensor_view(target, extents, str(dtype))
    return tvm.runtime.empty(extents, str(dtype), _here.device)
