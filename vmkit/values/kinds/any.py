"""Values of which no more is known: functions, references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .spec import Check, Mismatch, Spec
from .value import Release

if TYPE_CHECKING:
    from .. import conversion, staging
    from .value import Given, Result, RuntimeValue, Staged
else:
    conversion = deferred("vmkit.values.conversion")
    staging = deferred("vmkit.values.staging")

__all__ = ["AnySpec"]


@dataclass(frozen=True)
class AnySpec(Spec, kind="any"):
    """A value whose structure is not described: a function, a reference.

    Parameters
    ----------
    name
        The parameter's name.
    type
        What is known of its type, to be printed.
    """

    type: str = "any"

    def __str__(self) -> str:
        return self.type

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        return iter(())

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        return staging.staged_any(value, path, refused)

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        return conversion.from_runtime(value, release)

    def _fields_to_json(self) -> dict[str, Any]:
        return {"type": self.type}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> AnySpec:
        return cls(data["name"], data.get("type", "any"))
