"""Running an executable on a device."""

from .machine import VirtualMachine

__all__ = ["VirtualMachine"]
