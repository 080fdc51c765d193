"""``tvm.runtime.profiler_vm``: says that there is no machine that profiles each kernel."""

from __future__ import annotations

from typing import Any

from vmkit.errors import OptionError

__all__ = ["VirtualMachineProfiler", "enabled"]


def enabled() -> bool:
    """Say whether there is a profiler; scripts ask before they use it."""
    return False


class VirtualMachineProfiler:
    """Refuses to be made: measure whole runs with :meth:`vmkit.VirtualMachine.benchmark`."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise OptionError("the profiler of the virtual machine is not there; VirtualMachine.benchmark measures runs")
