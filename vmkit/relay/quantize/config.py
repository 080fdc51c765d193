"""How automatic quantisation decides."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextvars import ContextVar, Token
from dataclasses import field, fields
from types import TracebackType
from typing import Any

from ..._dataclasses import dataclass
from ...errors import OptionError, suggest
from ..ir import Call

__all__ = ["QAnnotateKind", "QConfig", "current_qconfig", "kind2str", "qconfig"]

logger = logging.getLogger(__name__)


class QAnnotateKind:
    """What a quantised value is, which decides its number of bits; numbered as in Relay."""

    IDENTITY = 0
    INPUT = 1
    WEIGHT = 2
    ACTIVATION = 3


_NAMES = {
    QAnnotateKind.IDENTITY: "identity",
    QAnnotateKind.INPUT: "input",
    QAnnotateKind.WEIGHT: "weight",
    QAnnotateKind.ACTIVATION: "activation",
}


def kind2str(kind: int) -> str:
    """Return the name of a kind.

    >>> kind2str(QAnnotateKind.WEIGHT)
    'weight'
    """
    return _NAMES[kind]


_CHOICES = {
    "calibrate_mode": ("global_scale", "kl_divergence", "percentile"),
    "weight_scale": ("power2", "max"),
    "rounding": ("UPWARD", "TONEAREST"),
    "partition_conversions": ("disabled", "enabled", "fully_integral"),
}


@dataclass(frozen=True)
class QConfig:
    """A configuration of automatic quantisation, in force within a ``with`` statement.

    Attributes
    ----------
    nbit_input, nbit_weight, nbit_activation : int
        The bits of values of each kind, the sign among them.
    dtype_input, dtype_weight, dtype_activation : str
        Their data types.
    calibrate_mode : str
        How the scales of values are found: ``"global_scale"`` is one for all; ``"kl_divergence"`` keeps most of the
        distribution of what a data set gives; ``"percentile"`` has all but the largest 0.001 % of it in range.
    global_scale : float
        The largest magnitude of values, for ``"global_scale"``.
    weight_scale : str
        The largest magnitude of weights: ``"max"`` of each, or that rounded up to a ``"power2"``.
    skip_dense_layer : bool
        Whether dense stays in reals.
    skip_conv_layers : sequence of int, optional
        Which calls of conv2d stay in reals, counted from 0.
    do_simulation : bool
        Whether the program stays one of reals that are rounded as integers would be.
    round_for_shift : bool
        Whether a shift to the right rounds.
    debug_enabled_ops : sequence of str, optional
        The operators that are quantised; all by default.
    rounding : str
        Where halves go in products with scales: ``"UPWARD"``, or ``"TONEAREST"``, which is away from zero.
    calibrate_chunk_by : int
        How many values are held at once while scales are found; -1 for all.
    partition_conversions : str
        Whether the program is cut into ``quantize_inputs``, ``quantized_main`` and ``dequantize_outputs``, which
        ``main`` calls: ``"disabled"``, ``"enabled"``, or ``"fully_integral"``, where reals in the middle are an error.
    """

    nbit_input: int = 8
    nbit_weight: int = 8
    nbit_activation: int = 32
    dtype_input: str = "int8"
    dtype_weight: str = "int8"
    dtype_activation: str = "int32"
    calibrate_mode: str = "global_scale"
    global_scale: float = 8.0
    weight_scale: str = "power2"
    skip_dense_layer: bool = True
    skip_conv_layers: Sequence[int] | None = (0,)
    do_simulation: bool = False
    round_for_shift: bool = True
    debug_enabled_ops: Sequence[str] | None = None
    rounding: str = "UPWARD"
    calibrate_chunk_by: int = -1
    partition_conversions: str = "disabled"
    _tokens: list[Token[QConfig]] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        wrong = [
            f"{name} is {getattr(self, name)!r}; it is one of {', '.join(allowed)}"
            f"{suggest(str(getattr(self, name)), allowed)}"
            for name, allowed in _CHOICES.items()
            if getattr(self, name) not in allowed
        ]
        if self.calibrate_chunk_by != -1 and self.calibrate_chunk_by < 1:
            wrong.append(f"calibrate_chunk_by is {self.calibrate_chunk_by}; it is -1 or at least 1")
        if wrong:
            raise OptionError("\n".join(wrong))

    def guard(self, ref_call: Call) -> bool:
        """Say whether calls of an operator are quantised."""
        return self.debug_enabled_ops is None or ref_call.op.name in [str(name) for name in self.debug_enabled_ops]

    def get_nbit_by_kind(self, kind: int) -> int:
        """Return the number of bits of values of a kind."""
        return int(getattr(self, f"nbit_{kind2str(kind)}"))

    def get_dtype_by_kind(self, kind: int) -> str:
        """Return the data type of values of a kind."""
        return str(getattr(self, f"dtype_{kind2str(kind)}"))

    def __enter__(self) -> QConfig:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._tokens.pop())


_DEFAULT = QConfig()
_current: ContextVar[QConfig] = ContextVar("quantisation configuration")


def current_qconfig() -> QConfig:
    """Return the configuration in force."""
    return _current.get(_DEFAULT)


def qconfig(**kwargs: Any) -> QConfig:
    """Return a configuration, to be put in force by a ``with`` statement.

    Parameters
    ----------
    **kwargs
        The attributes of :class:`QConfig`. As in Relay, others are left aside; a warning names them.

    Raises
    ------
    OptionError
        Listing all values that an attribute cannot have.

    Examples
    --------
    >>> with qconfig(global_scale=4.0):
    ...     current_qconfig().global_scale
    4.0
    """
    known = {f.name for f in fields(QConfig) if not f.name.startswith("_")}
    for name in sorted(set(kwargs) - known):
        logger.warning("qconfig knows no %r%s; it is left aside", name, suggest(name, known))
    return QConfig(**{name: value for name, value in kwargs.items() if name in known})
