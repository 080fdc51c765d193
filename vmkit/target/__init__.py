"""What to compile for: every form of naming a target, checked and brought to one."""

from __future__ import annotations

from vmkit.target.host import host_supports
from vmkit.target.plan import TargetPlan, canonical_target, command_line, device_type

__all__ = ["TargetPlan", "canonical_target", "command_line", "device_type", "host_supports"]
