"""Where the time of a call goes: each kernel, those inside kernel groups too, and the machine's own instructions."""

from .metrics import Count, Duration, Percent, Ratio
from .profiler import Profiling, VirtualMachineProfiler, profiled
from .report import Report

__all__ = ["Count", "Duration", "Percent", "Profiling", "Ratio", "Report", "VirtualMachineProfiler", "profiled"]
