"""Programs as they are between passes, to look at: an instrument that keeps the text of what a pass leaves."""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm.ir.instrument import pass_instrument

from ..relay.ir import Function
from ..relay.text import astext

__all__ = ["FLATTENED", "LOWERED", "SCHEDULED", "SIMPLIFIED", "TENSORS", "Snapshots"]

SCHEDULED = "RewriteDataflowReshape"
"""The pass after which a program is calls in Relax of kernels that have their schedules."""

TENSORS = "tirx.BindTarget"
"""The pass after which kernels are as their schedules left them, with tensors of several axes."""

FLATTENED = "tirx.FlattenBuffer"
"""The pass after which kernels compute on flat memory."""

SIMPLIFIED = "tirx.CommonSubexprElim"
"""The last pass that simplifies kernels, whose memory is planned then."""

LOWERED = "tirx.LowerIntrin"
"""The last pass over kernels before code is made of them."""


@pass_instrument
class Snapshots:
    """Keeps the text of the module after each pass that is asked for, once for each module that it ran on.

    Parameters
    ----------
    passes : iterable of str
        Names of passes of Relay, Relax or TIR, such as ``"FoldConstant"``, ``"FuseTIR"`` or ``"tirx.LowerIntrin"``.

    Examples
    --------
    >>> import vmkit
    >>> from vmkit import relay
    >>> snapshots = Snapshots(["FuseTIR"])
    >>> x = relay.var("x", shape=(2,))
    >>> with vmkit.PassContext(instruments=[snapshots]):
    ...     executable = vmkit.compile(relay.Function([x], relay.exp(x)), "llvm")
    >>> "def main" in snapshots.text("FuseTIR")
    True
    """

    def __init__(self, passes: Iterable[str]) -> None:
        self._seen: dict[str, list[str]] = {name: [] for name in passes}

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """Keep the text; TVM calls this."""
        if info.name in self._seen:
            is_relay = any(isinstance(function, Function) for function in mod.functions.values())
            self._seen[info.name].append(astext(mod, show_meta_data=False) if is_relay else mod.script(show_meta=False))

    def text(self, name: str) -> str:
        """Return what was seen after a pass: several texts, one behind the other, where it ran on several modules."""
        return "\n".join(self._seen[name])
