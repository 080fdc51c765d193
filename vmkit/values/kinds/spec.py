"""What every kind of value has: a name, a text, a check, a form in JSON, and the ways in and out of a program.

A kind is one class, a frozen dataclass below :class:`Spec` in a file of its own; what it is called in JSON is said
where it is declared, and makes it known. A type of Relay becomes one in :mod:`vmkit.relay.signature`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from ..._dataclasses import dataclass
from ...errors import OptionError
from ..dims import NamedDims
from .value import Release

if TYPE_CHECKING:
    from .value import Given, Result, RuntimeValue, Staged

__all__ = ["KINDS", "Check", "Mismatch", "Spec", "describe"]

KINDS: dict[str, type[Spec]] = {}
"""The kinds of value by their names in JSON."""

Mismatch = tuple[str, str]
"""The path of a value, such as ``state[1]``, and what is wrong with it."""


@dataclass(frozen=True)
class Check:
    """What the check of one call knows: the values that were refused already, by path, and what names stand for."""

    refused: Mapping[str, str]
    dims: NamedDims = field(default_factory=NamedDims)


_TEXTS = {"name", "dtype", "type", "key", "value"}
"""The fields of specs that are texts, of whatever kind."""


@dataclass(frozen=True)
class Spec:
    """What a parameter, a result or a part of one may be.

    Parameters
    ----------
    name
        Of the parameter or result; empty for a part.
    """

    name: str

    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str) -> None:
        super().__init_subclass__()
        cls.kind = kind
        KINDS[kind] = cls

    # -- the check of a call

    def mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        """Yield everything in a staged value that this kind does not allow. A value that was refused is left alone."""
        if path in check.refused:
            yield path, check.refused[path]
        else:
            yield from self._mismatches(value, path, check)

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        raise NotImplementedError

    # -- into a program and out of it

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        """Return `value` as something a signature can check: arrays, and tuples of them.

        Python scalars and lists take the dtype that is declared, if no value changes by that; where none is declared,
        bools and ints become int32 and other numbers float32, as in Relay. Arrays are not converted. What cannot be
        staged is described in `refused` under its path.
        """
        raise NotImplementedError

    def fit(self, value: Given, path: str, refused: dict[str, str]) -> Given:
        """Return `value`, converted where it differs from what is declared by what can be changed without a loss.

        That is the data type and, for one element, the rank (see :func:`vmkit.values.fitting.fitted_tensor`). What
        would lose something is described in `refused` under its path. All else is left to :meth:`stage` and the check.
        """
        return value

    @property
    def is_restored(self) -> bool:
        """Whether the runtime's form of a value is not what a caller is given, so that a result needs its spec."""
        return False

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        """Return a result of a program as this kind declares it, also where the runtime's form says less."""
        raise NotImplementedError

    def knowing(self, same: bool | tuple[Any, ...]) -> Spec:
        """Return what restores the results of a function of which some parts are the same in every call.

        `same` is whether the runtime's form of a result is, or, of a tuple, the same of each of its fields. What was
        read of such a part once need not be read again.
        """
        return self

    # -- JSON

    def to_json(self) -> dict[str, Any]:
        """Return the spec as plain JSON values; :meth:`from_json` reads them."""
        return {"kind": self.kind, "name": self.name, **self._fields_to_json()}

    def _fields_to_json(self) -> dict[str, Any]:
        """Return what the kind has beside a name."""
        raise NotImplementedError

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Spec:
        """Return the spec, of whatever kind, that :meth:`to_json` described."""
        kind = KINDS.get(data["kind"])
        if kind is None:
            *most, last = KINDS
            raise OptionError(f"unknown kind of spec {data['kind']!r}, expected {', '.join(most)} or {last}")
        for name in _TEXTS & data.keys():
            if not isinstance(data[name], str):
                raise OptionError(f"the {name} of a {data['kind']} is {data[name]!r}, expected a text")
        return kind._of_json(data)

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> Spec:
        raise NotImplementedError


def describe(value: Given) -> str:
    """Name a value in an error, without printing all of it."""
    kind = type(value).__name__
    if value is None or kind == "ndarray":
        return "None" if value is None else "an array"
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{article} {kind}"
