"""How requantisation computes where its attributes do not say: the scope that ``requantize_config`` opens."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from ...._dataclasses import dataclass
from ....errors import OptionError, suggest

__all__ = ["COMPUTE_DTYPES", "ROUNDINGS", "RequantizeConfig", "current_requantize_config", "requantize_config"]

ROUNDINGS = ("UPWARD", "TONEAREST")
COMPUTE_DTYPES = ("int64", "float32", "float64")


@dataclass(frozen=True)
class RequantizeConfig:
    """The rounding and the arithmetic of requantisations that leave them open.

    Attributes
    ----------
    rounding : str
        Where halves go: ``"UPWARD"`` or ``"TONEAREST"``, which is away from zero.
    compute_dtype : str
        ``"int64"`` for fixed-point numbers, the same for every target (Relay took float32 where an x86 target had
        SSE 4.1); ``"float32"`` or ``"float64"``.

    Examples
    --------
    >>> RequantizeConfig().chosen("TONEAREST", "None")
    RequantizeConfig(rounding='TONEAREST', compute_dtype='int64')
    """

    rounding: str = "UPWARD"
    compute_dtype: str = "int64"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("rounding", self.rounding, ROUNDINGS),
            ("compute_dtype", self.compute_dtype, COMPUTE_DTYPES),
        ):
            if value not in allowed:
                raise OptionError(
                    f"{name} is {value!r}; it is one of {', '.join(allowed)}{suggest(str(value), allowed)}"
                )

    def chosen(self, rounding: str, compute_dtype: str) -> RequantizeConfig:
        """Return what holds for attributes that may say ``"None"``."""
        return RequantizeConfig(
            self.rounding if rounding == "None" else rounding,
            self.compute_dtype if compute_dtype == "None" else compute_dtype,
        )


_DEFAULT = RequantizeConfig()
_current: ContextVar[RequantizeConfig] = ContextVar("requantize_config", default=_DEFAULT)


def current_requantize_config() -> RequantizeConfig:
    """Return the configuration in force."""
    return _current.get()


@contextlib.contextmanager
def requantize_config(rounding: str = "UPWARD", compute_dtype: str = "int64") -> Iterator[RequantizeConfig]:
    """Put a configuration in force for the compilations within a ``with`` statement.

    Parameters
    ----------
    rounding, compute_dtype : str
        The fields of :class:`RequantizeConfig`.

    Raises
    ------
    OptionError
        For an unknown value.

    Examples
    --------
    >>> with requantize_config(rounding="TONEAREST"):
    ...     current_requantize_config().rounding
    'TONEAREST'
    """
    token = _current.set(RequantizeConfig(rounding, compute_dtype))
    try:
        yield _current.get()
    finally:
        _current.reset(token)
