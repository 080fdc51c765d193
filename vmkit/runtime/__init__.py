"""Running an executable on a device, here or on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._later import named_later

if TYPE_CHECKING:
    from .machine import VirtualMachine
    from .remote import RemoteMachine

__all__ = ["RemoteMachine", "VirtualMachine"]

__getattr__, __dir__ = named_later(__name__)
