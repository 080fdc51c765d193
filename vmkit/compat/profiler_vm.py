"""``tvm.runtime.profiler_vm``: the machine that says where the time of a call goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vmkit.errors import OptionError
from vmkit.runtime.profile import Report, profiled

from .vm import VirtualMachine

__all__ = ["VirtualMachineProfiler", "enabled"]


def enabled() -> bool:
    """Say whether there is a profiler; scripts ask before they use it."""
    return True


class VirtualMachineProfiler(VirtualMachine):
    """A machine whose calls can be profiled; see :class:`vmkit.VirtualMachine`."""

    def profile(
        self, *args: Any, func_name: str = "main", collectors: Sequence[Any] | None = None, **kwargs: Any
    ) -> Report:
        """Return how long each kernel of a call took; see :class:`vmkit.runtime.profile.Report`.

        Raises
        ------
        OptionError
            For `collectors` of hardware counters, of which there are none.
        """
        if collectors:
            raise OptionError("collectors of hardware counters are gone from TVM; the report has the times of kernels")
        # The first call does what is done once.
        self.invoke(func_name, *args, **kwargs)
        return profiled(self, func_name, lambda: self.invoke(func_name, *args, **kwargs))
