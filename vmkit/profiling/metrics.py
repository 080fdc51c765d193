"""The values of a report, with the names that TVM's reports give them."""

from __future__ import annotations

from typing import Any

from ..errors import ParseError

__all__ = ["Count", "Duration", "Percent", "Ratio", "metric_from_json", "metric_to_json"]


class Duration(float):
    """A time in microseconds."""

    @property
    def microseconds(self) -> float:
        """The time."""
        return float(self)


class Percent(float):
    """A part of the whole, in percent."""

    @property
    def percent(self) -> float:
        """The part."""
        return float(self)


class Ratio(float):
    """One number by another."""

    @property
    def ratio(self) -> float:
        """The quotient."""
        return float(self)


class Count(int):
    """How often something happened."""

    @property
    def value(self) -> int:
        """The number."""
        return int(self)


# What a value of each kind is called in JSON.
_KEYS: dict[type, str] = {Duration: "microseconds", Percent: "percent", Ratio: "ratio", Count: "count", str: "string"}
_KINDS = {key: kind for kind, key in _KEYS.items()}


def metric_to_json(value: object) -> dict[str, Any]:
    """Return a value of a report as JSON has it.

    >>> metric_to_json(Duration(2.5))
    {'microseconds': 2.5}
    """
    kind = next(kind for kind in _KEYS if isinstance(value, kind))
    plain = float(value) if isinstance(value, float) else int(value) if isinstance(value, int) else str(value)
    return {_KEYS[kind]: plain}


def metric_from_json(data: object) -> Any:
    """Return the value that :func:`metric_to_json` described; ParseError for another one."""
    match data:
        case dict() if len(data) == 1:
            ((key, value),) = data.items()
            if key in _KINDS:
                return _KINDS[key](value)
    raise ParseError(f"{data!r} is no value of a report: expected one of {', '.join(_KINDS)} by its name")
