"""``tvm.runtime.profiling``: reports, and the names of what read hardware counters, which refuse."""

from __future__ import annotations

from vmkit.profiling import Count, Duration, Percent, Ratio, Report

from .gone import gone

__all__ = [
    "Count",
    "DeviceWrapper",
    "Duration",
    "MetricCollector",
    "PAPIMetricCollector",
    "Percent",
    "Ratio",
    "Report",
    "profile_function",
]

_INSTEAD = "VirtualMachineProfiler.profile has the times of kernels; TVM reads no hardware counters any more"

DeviceWrapper = gone("tvm.runtime.profiling.DeviceWrapper", _INSTEAD)
MetricCollector = gone("tvm.runtime.profiling.MetricCollector", _INSTEAD)
PAPIMetricCollector = gone("tvm.runtime.profiling.PAPIMetricCollector", _INSTEAD)
profile_function = gone("tvm.runtime.profiling.profile_function", _INSTEAD)
