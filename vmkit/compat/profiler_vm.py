"""``tvm.runtime.profiler_vm``: the machine that says where the time of a call goes."""

from __future__ import annotations

import warnings
from typing import Any

from vmkit.executable.executable import Executable
from vmkit.profiling.profiler import Profiling, marked, refuse_remote

from .vm import VirtualMachine
from .vm_executable import ExecutableModule

__all__ = ["VirtualMachineProfiler", "enabled"]


def enabled() -> bool:
    """Say whether there is a profiler; scripts ask before they use it."""
    return True


class VirtualMachineProfiler(VirtualMachine, Profiling):
    """A machine whose calls can be profiled; see :class:`vmkit.profiling.VirtualMachineProfiler`."""

    def __new__(cls, exe: Any, *_args: Any, **_options: Any) -> Any:
        refuse_remote(exe)
        return super().__new__(cls, exe)

    def __init__(self, exe: Any, *args: Any, **options: Any) -> None:
        known = exe.executable if isinstance(exe, ExecutableModule) else exe
        super().__init__(marked(known) if isinstance(known, Executable) else known, *args, **options)

    def get_stat(self, sort_by_time: bool = True) -> str:
        """Return nothing, as in Relay, where :meth:`profile` had taken its place."""
        warnings.warn("get_stat has been removed, use profile instead", stacklevel=2)
        return ""
