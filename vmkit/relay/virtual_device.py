"""Where Relay was told to put a value: the device that a text or a JSON document names for it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["VirtualDevice"]

_UNKNOWN = -1


@dataclass(frozen=True)
class VirtualDevice:
    """A device that a value shall lie on, as far as it is known.

    Parameters
    ----------
    device_type : int
        The kind of device by its DLPack number, such as 1 for the CPU and 2 for CUDA; -1 when any will do.
    device_id : int
        Which device of that kind; -1 when any will do.
    memory_scope : str
        The kind of memory on it; empty when any will do.
    """

    device_type: int = _UNKNOWN
    device_id: int = _UNKNOWN
    memory_scope: str = ""

    @property
    def is_unconstrained(self) -> bool:
        """Whether any device will do."""
        return self == VirtualDevice()
