"""Types of device: DLPack's numbers, and the names TVM has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm.runtime import Device

from vmkit._tvm.running import DEVICE_NAMES, DEVICE_TYPES
from vmkit.errors import TargetError, suggest

if TYPE_CHECKING:
    from tvm.target import Target

__all__ = ["CPU", "device_name", "device_type", "device_type_of", "numbered_device", "numbered_name"]

CPU = 1
_OLD_NAMES = {"gpu": "cuda", "cl": "opencl"}


def device_type(target: Target) -> int:
    """Return DLPack's number for the type of device that `target` is for."""
    return int(target.get_target_device_type())


def device_type_of(device: str | int | Device) -> int:
    """Return DLPack's number for a device given by name, number or ``tvm.device``; ``TargetError`` if there is none.

    >>> device_type_of("cuda"), device_type_of("cl"), device_type_of(1)
    (2, 4, 1)
    """
    if isinstance(device, Device):
        return int(device.dlpack_device_type())
    if isinstance(device, str):
        names = DEVICE_TYPES
        if (name := _OLD_NAMES.get(device, device)) in names:
            return int(names[name])
        raise TargetError(f"there is no type of device {device!r}{suggest(device, names)}")
    try:
        number = int(device)
    except (TypeError, ValueError):
        raise TargetError(f"expected a device name, number or tvm.device, got {type(device).__name__}") from None
    if number not in DEVICE_NAMES:
        raise TargetError(f"there is no type of device {number}")
    return number


def device_name(number: int) -> str:
    """Return TVM's name for the type of device with DLPack's `number`."""
    return str(DEVICE_NAMES.get(number, number))


def numbered_device(device: str | int | Device) -> tuple[int, int]:
    """Return DLPack's number for the type of a device, and which one of that type it is.

    >>> numbered_device("cpu:1"), numbered_device(2)
    ((1, 1), (2, 0))
    """
    if isinstance(device, Device):
        return device_type_of(device), int(device.index)
    if isinstance(device, str):
        name, colon, number = device.partition(":")
        if colon and not number.isdecimal():
            raise TargetError(f"expected NAME:NUMBER for a device, got {device!r}")
        return device_type_of(name), int(number or 0)
    return device_type_of(device), 0


def numbered_name(kind: int, number: int) -> str:
    """Return the name of a device, such as ``"cuda"`` or ``"cpu:1"``."""
    return f"{device_name(kind)}:{number}" if number > 0 else device_name(kind)
