"""Running an executable on a device, here or on another machine."""

from .machine import VirtualMachine
from .remote import RemoteMachine

__all__ = ["RemoteMachine", "VirtualMachine"]
