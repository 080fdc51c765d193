"""What to compile for: every form of naming a target, checked and brought to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vmkit._later import named_later

if TYPE_CHECKING:
    from vmkit.target.device_types import device_name, device_type
    from vmkit.target.host import host_supports
    from vmkit.target.plan import TargetPlan, canonical_target, command_line

__all__ = ["TargetPlan", "canonical_target", "command_line", "device_name", "device_type", "host_supports"]

__getattr__, __dir__ = named_later(__name__)
