"""Which device a program runs on: names, Device objects and lists of them; a missing device is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tvm import runtime
from tvm.runtime import Device

from .._tvm.importing import whole
from ..errors import DeviceError, suggest

__all__ = ["device", "devices", "devices_for", "is_present"]

_ALIASES = {"llvm": "cpu", "gpu": "cuda", "cl": "opencl", "vpi": "ext_dev"}
_NAMES = ("cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "hexagon", "webgpu", "ext_dev")
_RPC_SESSION_MASK = 128


class _DeviceTypeError(DeviceError, TypeError):
    """What is no device."""


def device(spec: str | Device = "cpu", index: int | None = None) -> Device:
    """Return the one device that `spec` names, after a check that it is there.

    Parameters
    ----------
    spec
        ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or a TVM device.
    index
        Which device of that kind, where the name does not say it.

    Raises
    ------
    DeviceError
        If the name is unknown or the device is absent. Nothing else is chosen in its place.
    """
    if isinstance(spec, Device):
        return _present(spec, str(spec))
    if not isinstance(spec, str):
        raise _DeviceTypeError(f"a device is a name such as 'cpu' or 'cuda:1', or a tvm.runtime.Device, not {spec!r}")
    match = re.fullmatch(r"([a-z_]+)(?::(\d+))?", spec.strip())
    name = match and _ALIASES.get(match[1], match[1])
    if match is None or name not in _NAMES:
        known = [*_NAMES, *_ALIASES]
        close = suggest(spec.split(":")[0], known)
        raise DeviceError(f"unknown device {spec!r}, expected one of {', '.join(known)} or NAME:INDEX{close}")
    if match[2] is not None and index is not None and int(match[2]) != index:
        raise DeviceError(f"device {spec!r} was given with another index {index}")
    number = int(match[2]) if match[2] is not None else index or 0
    if name != "cpu":
        whole()  # with which the libraries for other devices come
    return _present(runtime.device(name, number), f"{name}:{number}")


def devices(spec: str | Device | Sequence[str | Device]) -> list[Device]:
    """Return the devices that `spec` names: one, or a list of at most one per kind.

    The CPU is added at the end if it is not among them: shapes are computed there.
    """
    given = list(spec) if isinstance(spec, list | tuple) else [spec]
    if not given:
        raise DeviceError("no device was given, expected at least one such as 'cpu'")
    chosen = [device(one) for one in given]  # type: ignore[arg-type]  # which refuses what is no device
    kinds = [one.dlpack_device_type() % _RPC_SESSION_MASK for one in chosen]
    for position, kind in enumerate(kinds):
        if kind in kinds[:position]:
            first = chosen[kinds.index(kind)]
            raise DeviceError(f"{first} and {chosen[position]} are of one kind, expected at most one device per kind")
    cpu = runtime.cpu()
    if cpu.dlpack_device_type() not in kinds:
        return [*chosen, cpu]
    # The machine looks for the CPU in the last place.
    chosen.append(chosen.pop(kinds.index(cpu.dlpack_device_type())))
    return chosen


def devices_for(spec: str | Device | Sequence[str | Device], wanted: Sequence[str]) -> list[Device]:
    """Return the devices for a program on several, in their order, and at the end the CPU, where shapes are computed.

    Parameters
    ----------
    spec
        The devices that there are to run on.
    wanted
        What the program was compiled for, such as ``("cpu", "cuda")``: of each the device itself is taken, or where
        that is not among those given, the only one of its kind.

    Raises
    ------
    DeviceError
        If one of them has no device, or a device has nothing to do.
    """
    given = list(spec) if isinstance(spec, list | tuple) else [spec]
    there = {str(device(one)): device(one) for one in given}  # type: ignore[arg-type]  # which refuses what is no device
    there.setdefault("cpu:0", runtime.cpu())
    chosen: list[Device] = []
    for name in wanted:
        kind, _, number = name.partition(":")
        alike = [one for one in there if one.startswith(f"{kind}:") and there[one] not in chosen]
        exact = f"{kind}:{number or 0}"
        found = exact if exact in alike else alike[0] if len(alike) == 1 else None
        if found is None:
            raise DeviceError(
                f"Unable to find a physical device (from among the {len(given)} given) to match the virtual device "
                f"{exact}: the program was compiled for {', '.join(wanted)}, the devices are {', '.join(there)}"
            )
        chosen.append(there[found])
    idle = [name for name, one in there.items() if one not in chosen and name != "cpu:0"]
    if idle:
        raise DeviceError(f"the program was compiled for {', '.join(wanted)}, and does not use {', '.join(idle)}")
    is_host = chosen[-1].dlpack_device_type() == runtime.cpu().dlpack_device_type()
    return chosen if is_host else [*chosen, runtime.cpu()]


def is_present(name: str) -> bool:
    """Tell whether there is a device of a kind, such as ``"cuda"``."""
    try:
        device(name)
    except DeviceError:
        return False
    return True


def _present(found: Device, name: str) -> Device:
    if not found.exist:
        raise DeviceError(
            f"device {name} is not available: TVM's runtime has no such device or no driver for it; "
            "choose another device, such as 'cpu'"
        )
    return found
