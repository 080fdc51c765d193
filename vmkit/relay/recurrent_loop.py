"""What a function is that runs the steps of a recurrent layer: the mark that a frontend leaves on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict

from .._dataclasses import dataclass
from .ir import Constant, Function

__all__ = ["RecurrentLoop"]

_ATTRIBUTE = "vmkit.recurrent_loop"
_QUANTIZED = ("quantized", "scale", "zero")


@dataclass(frozen=True)
class RecurrentLoop:
    """What a function computes that runs the steps of a recurrent layer from a position on.

    Its arguments are the position, what the steps before gave, the inputs times weights plus bias, the states, the
    weights of the recurrence, and the lengths if there are any.

    Attributes
    ----------
    cell : str
        "rnn", whose weight is the recurrence's; "lstm", whose weights are the recurrence's and the three peepholes, if
        there are any, for input, output and forget gate; "gru", whose weights are the recurrence's of the update and
        reset gates, that of the hidden gate, and the bias of the latter. "quantized_lstm" is an "lstm" whose states are
        quantised by their range before they are multiplied, and whose recurrence is no argument but
        :meth:`constants_of` the function.
    functions : str
        The functions of the gates, as vmkit.kernels.gate_functions reads them.
    is_reverse, clip, has_lengths, has_peepholes, input_forget, linear_before_reset
        As the operators nn.contrib_rnn, nn.contrib_lstm and nn.contrib_gru say.
    """

    cell: str
    functions: str
    is_reverse: bool = False
    clip: float | None = None
    has_lengths: bool = False
    has_peepholes: bool = False
    input_forget: bool = False
    linear_before_reset: bool = False

    def mark(self, function: Function, constants: Mapping[str, Constant] | None = None) -> Function:
        """Return the function with the mark that it is such a loop, and with the constants of its recurrence."""
        for name, value in (constants or {}).items():
            function = function.with_attr(f"{_ATTRIBUTE}.{name}", value)
        return function.with_attr(_ATTRIBUTE, json.dumps(asdict(self)))

    @staticmethod
    def of(function: Function) -> RecurrentLoop | None:
        """Return what the mark of a function says, None where there is none."""
        mark = function.attrs.get(_ATTRIBUTE)
        return None if mark is None else RecurrentLoop(**json.loads(str(mark)))

    @staticmethod
    def constants_of(function: Function) -> tuple[Constant, Constant, Constant]:
        """Return the integers (hidden, gates * hidden) of a quantised recurrence, their scale and their zero point.

        The last two are one number each, or one for each of the gates' columns.
        """
        integers, scale, zero = (function.attrs[f"{_ATTRIBUTE}.{name}"] for name in _QUANTIZED)
        return integers, scale, zero
