"""Where a value is to be: a type of device, and which one of that type."""

from __future__ import annotations

import tvm

from ...target.device_types import device_name, device_type_of
from .lifetime import py_class

__all__ = ["DEVICE_PART", "PARAM_DEVICES", "RESULT_DEVICE", "VirtualDevice"]

DEVICE_PART = "device_part"
"""The attribute of a function that another device computes: the name by which the machine finds the code."""
PARAM_DEVICES = "param_virtual_devices"
"""The attribute of a function that has the devices of its parameters; texts have them at the parameters."""
RESULT_DEVICE = "result_virtual_device"
"""The attribute of a function that has the device of its result; texts call it ``virtual_device``."""


@py_class("relay.VirtualDevice", structural_eq="tree")
class VirtualDevice(tvm.ir.Node):
    """A device that a program names, and the kind of memory there.

    Attributes
    ----------
    device_type : int
        DLPack's number for the type of device; 0 or less for any.
    virtual_device_id : int
        Which device of that type; -1 for any.
    memory_scope : str
        The kind of memory; empty for the ordinary one.

    Examples
    --------
    >>> print(VirtualDevice.of("cuda:1"))
    cuda:1
    """

    device_type: int
    virtual_device_id: int
    memory_scope: str = ""

    @classmethod
    def of(cls, device: tvm.runtime.Device | str) -> VirtualDevice:
        """Return the virtual device of a ``tvm.device`` or a name such as ``"cuda"`` or ``"cuda:1"``."""
        if isinstance(device, str):
            name, _, index = device.partition(":")
            return cls(device_type_of(name), int(index or 0))
        return cls(device_type_of(device), int(device.index))

    @property
    def device_type_int(self) -> int:
        """DLPack's number for the type of device; Relay's other name of ``device_type``."""
        return self.device_type

    @property
    def target(self) -> None:
        """None: a program is compiled for one target, which is not a device's to say."""
        return

    @property
    def is_constrained(self) -> bool:
        """Whether a type of device is asked for."""
        return self.device_type > 0

    @property
    def is_free(self) -> bool:
        """Whether nothing is asked for: neither a type of device, nor its number, nor a kind of memory."""
        return not self.is_constrained and self.virtual_device_id < 0 and not self.memory_scope

    def __str__(self) -> str:
        name = device_name(self.device_type) if self.is_constrained else "any device"
        name = f"{name}:{self.virtual_device_id}" if self.virtual_device_id > 0 else name
        return f"{name} in {self.memory_scope!r}" if self.memory_scope else name
