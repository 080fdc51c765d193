"""TVM's virtual machine made ready: the executable fits the devices, memory has its allocators, weights are passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm.runtime import Device, Tensor

from .._deferred import deferred
from .._tvm import has_global_function
from .._tvm.importing import whole
from ..bytecode import Program, lift_weights
from ..bytecode.placeholders import WEIGHT_BYTES
from ..bytecode.stored_weights import tensor_over
from ..bytecode.weights import weights_of
from ..errors import DeviceError, ExecutableError, OptionError, VMKitError
from ..executable.executable import Executable
from ..target.device_types import CPU, device_name, numbered_device
from ..target.devices import device as one_device
from .failures import useful_line
from .limits import Limits
from .memory_limit import counted
from .polling import can_run_on, polled, with_run_state
from .pool import share_work
from .stack_guard import guarded

if TYPE_CHECKING:
    from ..bytecode import joining, placed_weights
else:
    # They are for programs on several devices.
    joining, placed_weights = deferred("vmkit.bytecode.joining"), deferred("vmkit.bytecode.placed_weights")

__all__ = ["started"]

Weights = Sequence[Tensor] | tvm_ffi.Object

_ALLOCATORS = {"naive": 1, "pooled": 2}


class _OptionTypeError(OptionError, TypeError):
    """An option of the wrong type."""


def started(
    executable: Executable,
    devices: Sequence[Device],
    memory_cfg: str | Mapping[Any, str] | None,
    limits: Limits | None = None,
    *,
    several_threads: bool = False,
) -> tvm.runtime.Module:
    """Return TVM's VM with an executable loaded, every kernel found and its weights passed to its functions.

    A program that may run for any time, or has a time, looks at a flag: it has the function :data:`.polling.FLAG` then.
    One with long kernel groups or loops has :data:`.polling.STATE`. With `several_threads` its kernels share their work
    by the process' pool.

    Raises
    ------
    DeviceError
        If the executable was built for a device that is not among `devices`.
    OptionError
        If `memory_cfg` names an allocator or a device that there is not.
    ExecutableError
        If a kernel is missing, or is for another machine.
    """
    limits = limits or Limits()
    _match_target(executable, devices)
    if executable.info.texts is not None:
        from ..values import text_functions  # noqa: F401 - the functions that programs with strings call
    pairs = zip(devices, _allocators(devices, memory_cfg), strict=True)
    options = [number for device, kind in pairs for number in (device.dlpack_device_type(), device.index, kind)]
    program, takers = executable.program, set[str]()
    weights: Weights = []
    if executable.info.devices is not None:
        program = _on_devices(program, executable.info.devices, devices)
    if executable.holds_weights and (executable.info.devices is not None or len(devices) == 1):
        program, weights, takers = _with_weights(program, devices)
    # Flags of programs elsewhere would lie there, too.
    has_time = limits.timeout is not None
    if str(devices[0]).startswith("cpu"):
        program = with_run_state(program)
        if has_time or can_run_on(program):
            program = polled(program, kernels=has_time)
    if limits.budget is not None:
        program = counted(program, limits.budget)
    if program.recursive_functions():
        program = guarded(program)
    try:
        runnable = executable.runnable(program if program is not executable.program else None)
        if not all(has_global_function(n) or runnable.implements_function(n, True) for n in program.packed_names):
            whole()  # some functions that programs call are TVM's own in Python, such as those of relax.nonzero
        if several_threads:
            share_work(runnable.imports)
        module = runnable["vm_load_executable"]()
        module["vm_initialization"](*options)
        for name in sorted(takers):
            module["save_function"](name, name, 1, weights)
    except VMKitError:
        raise
    except Exception as error:
        raise ExecutableError(f"the executable cannot be linked: {useful_line(error)}") from error
    return module


def _with_weights(program: Program, devices: Sequence[Device]) -> tuple[Program, Weights, set[str]]:
    """Return a program that takes its weights, these on the devices that use them, and the functions that take them."""
    if len(devices) == 1:
        lifted, constants, takers = lift_weights(program)
        return lifted, [tensor_over(constant) for constant in constants], takers
    placed, places = placed_weights.with_placed_weights(program)
    positions = list(weights_of(placed, WEIGHT_BYTES, places))
    # TVM's VM takes the tensors of a tuple to its first device, and leaves those of a list where they are.
    lifted, constants, takers = lift_weights(placed, getitem="ffi.ListGetItem", also=places)
    if not takers:
        return program, [], takers
    first = numbered_device(devices[0])
    where = [places.get(position, first) for position in positions]
    tensors = [_placed(tensor_over(c), *place) for c, place in zip(constants, where, strict=True)]
    return lifted, tvm_ffi.List(tensors), takers


def _placed(tensor: Tensor, kind: int, number: int) -> Tensor:
    """Return a tensor on a device; one on the first CPU is there."""
    if (kind, number) == (CPU, 0):
        return tensor
    return tensor.copyto(one_device(device_name(kind), number))


def _on_devices(program: Program, wanted: Sequence[str], devices: Sequence[Device]) -> Program:
    """Return a program that copies to the devices that there are in the places of those it was compiled for."""
    pairs = zip(map(numbered_device, wanted), map(numbered_device, devices), strict=False)
    moved = {one: other for one, other in pairs if one != other}
    return joining.with_devices(program, moved) if moved else program


def _match_target(executable: Executable, devices: Sequence[Device]) -> None:
    """Raise unless the device that the executable was built for is among `devices`."""
    wanted = executable.device_kind
    kinds = [str(device).split(":")[0] for device in devices]
    if wanted is not None and wanted not in kinds:
        raise DeviceError(
            f"Unable to find a physical device (from among the {len(devices)} given) to match the virtual device with "
            f"device type {wanted}: the executable was built for {wanted}, the devices are "
            f"{', '.join(map(str, devices))}; pass device={wanted!r}, or compile for another target"
        )
    if wanted == "cpu" and kinds[0] != "cpu":
        raise DeviceError(
            f"the executable was built for the CPU, but device {devices[0]} was asked for; "
            "compile for it or pass device='cpu'"
        )


def _allocators(devices: Sequence[Device], config: str | Mapping[Any, str] | None) -> list[int]:
    """Return the allocator of each device as the VM numbers them."""
    if config is None or isinstance(config, str):
        chosen: dict[Any, str] = {}
        default = config or "pooled"
    elif isinstance(config, Mapping):
        chosen = {str(one_device(key)): kind for key, kind in config.items()}
        default = "pooled"
    else:
        raise _OptionTypeError(
            f"memory_cfg is expected be string or dictionary, but received {type(config)}; "
            "pass 'naive', 'pooled' or a dict from device to one of them"
        )
    for kind in (default, *chosen.values()):
        if kind not in _ALLOCATORS:
            raise OptionError(f"unknown allocator {kind!r} in memory_cfg, expected 'naive' or 'pooled'")
    unused = sorted(set(chosen) - {str(device) for device in devices})
    if unused:
        raise OptionError(f"memory_cfg names {', '.join(unused)}, which the machine does not run on")
    return [_ALLOCATORS[chosen.get(str(device), default)] for device in devices]
