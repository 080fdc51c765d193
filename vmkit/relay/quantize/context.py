"""What automatic quantisation remembers while it goes through a program."""

from __future__ import annotations

from contextvars import ContextVar
from types import TracebackType
from typing import Any

from ..ir import Call, RelayExpr
from .config import current_qconfig

__all__ = ["QuantizeContext", "forward_op", "quantize_context"]


class QuantizeContext:
    """The state of one quantisation: which convolution comes next, and whether the rest of the program stays."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew."""
        self.qnode_map: dict[Any, Call] = {}
        self._conv2d_counter = 0
        self._stop_quantize = False

    def check_to_skip(self, ref_call: Call) -> bool:
        """Say whether a call stays in reals; calls of conv2d are counted."""
        if self._stop_quantize:
            return True
        skipped = current_qconfig().skip_conv_layers
        if skipped is None or ref_call.op.name != "nn.conv2d":
            return False
        at = self._conv2d_counter
        self._conv2d_counter += 1
        return at in [int(k) for k in skipped]

    def stop_quantize(self) -> None:
        """Leave the rest of the program as it is."""
        self._stop_quantize = True

    def __enter__(self) -> QuantizeContext:
        self.reset()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reset()


_current: ContextVar[QuantizeContext | None] = ContextVar("quantisation", default=None)


def quantize_context() -> QuantizeContext:
    """Return the state of the quantisation that runs; there is one for each thread."""
    found = _current.get()
    if found is None:
        found = QuantizeContext()
        _current.set(found)
    return found


def forward_op(ref_call: Call, args: list[RelayExpr]) -> Call:
    """Return a call of the same operator with other arguments."""
    return Call(ref_call.op, args, ref_call.attrs, list(ref_call.type_args), ref_call.span)
