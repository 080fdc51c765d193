"""What to compile for: every form of naming a target, checked and brought to one."""

from __future__ import annotations

from vmkit.target.device_type import device_name, device_type
from vmkit.target.host import host_supports
from vmkit.target.plan import TargetPlan, canonical_target, command_line

__all__ = ["TargetPlan", "canonical_target", "command_line", "device_name", "device_type", "host_supports"]
