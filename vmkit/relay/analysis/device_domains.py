"""Where values are, as far as it is known: cells of devices that are unified as constraints are met.

The domain of a value is a device, or for a function that of each parameter and of its result. A function itself is
where its result is; one inside a tuple, a reference or a data type has all of it where that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ir import FuncType, Type, VirtualDevice

__all__ = ["Conflict", "Domain", "joined"]


class Conflict(Exception):
    """Two devices that cannot be one."""

    def __init__(self, one: VirtualDevice, other: VirtualDevice) -> None:
        super().__init__(f"{one} and {other}")


def joined(one: VirtualDevice, other: VirtualDevice) -> VirtualDevice:
    """Return the device that satisfies both; Conflict where there is none. What is not said may be anything."""
    places = one, other
    types = {place.device_type for place in places if place.is_constrained}
    numbers = {place.virtual_device_id for place in places if place.virtual_device_id >= 0}
    scopes = {place.memory_scope for place in places if place.memory_scope}
    if max(len(types), len(numbers), len(scopes)) > 1:
        raise Conflict(one, other)
    return VirtualDevice(*types or (-1,), *numbers or (-1,), *scopes)


class Domain:
    """A cell: the device of a value, or the domains of a function's parameters and result."""

    def __init__(self, ty: Type | None = None) -> None:
        self._next: Domain | None = None
        self._device = VirtualDevice(-1, -1)
        self.params: Sequence[Domain] = [Domain(each) for each in ty.arg_types] if isinstance(ty, FuncType) else []
        self.result: Domain | None = Domain(ty.ret_type) if isinstance(ty, FuncType) else None

    @classmethod
    def at(cls, device: VirtualDevice) -> Domain:
        """Return the domain of values that are on a device."""
        made = cls()
        made._device = device
        return made

    def put(self, device: VirtualDevice) -> None:
        """Let a value, or the result of a function, be on a device; Conflict where it is on another."""
        cell = self.root
        while cell.result is not None:
            cell = cell.result.root
        cell._device = joined(cell._device, device)

    @property
    def root(self) -> Domain:
        """The cell that stands for all that were unified with this one."""
        cell = self
        while cell._next is not None:
            cell = cell._next
        if cell is not self:
            self._next = cell
        return cell

    @property
    def device(self) -> VirtualDevice:
        """The device of the value, as far as it is known; of a function, that of its result."""
        root = self.root
        return root._device if root.result is None else root.result.device

    def cells(self) -> Iterator[Domain]:
        """Yield the cells of devices in the domain: those of parameters, then those of the result."""
        root = self.root
        if root.result is None:
            yield root
            return
        for param in root.params:
            yield from param.cells()
        yield from root.result.cells()

    def unify(self, other: Domain) -> None:
        """Let two domains be one; Conflict where devices in them are not the same."""
        one, two = self.root, other.root
        if one is two:
            return
        if one.result is not None and two.result is not None and len(one.params) == len(two.params):
            for a, b in zip(one.params, two.params, strict=True):
                a.unify(b)
            one.result.unify(two.result)
        elif one.result is not None or two.result is not None:
            (plain, function) = (two, one) if one.result is not None else (one, two)
            for cell in function.cells():
                plain.unify(cell)
        else:
            one._device = joined(one._device, two._device)
            two._next = one

    def default(self, device: VirtualDevice) -> None:
        """Put whatever is not placed yet on a device."""
        for cell in self.cells():
            if not cell._device.is_constrained:
                cell._device = joined(cell._device, VirtualDevice(device.device_type, device.virtual_device_id))
