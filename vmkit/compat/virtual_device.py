"""``tvm.target.VirtualDevice``, made from a device, a target and a kind of memory."""

from __future__ import annotations

import tvm

from vmkit.errors import ModelError
from vmkit.relay import ir
from vmkit.relay.transform.plan_devices import DeviceConfig
from vmkit.target import canonical_target
from vmkit.target.plan import OneTarget, Targets

__all__ = ["VirtualDevice", "make_compilation_config"]


def make_compilation_config(
    ctxt: tvm.transform.PassContext, target: Targets, target_host: OneTarget | None = None
) -> DeviceConfig:
    """Return what ``PlanDevices`` is told: targets, and where values are that nothing is said of."""
    with ctxt:
        return DeviceConfig.of(canonical_target(target, target_host))


class _DevicesOfPrograms(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, ir.VirtualDevice)

    def __call__(
        cls, device: tvm.runtime.Device | None = None, target: OneTarget | None = None, memory_scope: str = ""
    ) -> ir.VirtualDevice:
        """Return the virtual device of a ``tvm.device``; without one, that of the target, or any.

        The target itself is not kept: a program is compiled for one target as a whole.
        """
        kind = -1 if target is None else int(canonical_target(target).primary.get_target_device_type())
        if device is None:
            return ir.VirtualDevice(kind, -1 if target is None else 0, memory_scope)
        found = ir.VirtualDevice.of(device)
        if target is not None and found.device_type != kind:
            raise ModelError(f"a virtual device on {found} cannot have target {target}, which is of another type")
        return ir.VirtualDevice(found.device_type, found.virtual_device_id, memory_scope)


class VirtualDevice(metaclass=_DevicesOfPrograms):
    """What ``isinstance`` finds the virtual devices of programs to be, and what makes one as Relay did."""
