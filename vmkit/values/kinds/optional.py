"""Values that may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .sequence import Elements
from .spec import Check, Mismatch, Spec, describe
from .value import Release

if TYPE_CHECKING:
    import tvm_ffi

    from .value import Given, Result, RuntimeValue, Staged
else:
    tvm_ffi = deferred("tvm_ffi")

__all__ = ["OptionalSpec"]


@dataclass(frozen=True)
class OptionalSpec(Spec, kind="optional"):
    """A value that matches a spec, or None. To a program it is a list of at most one.

    >>> from vmkit.values.kinds import TensorSpec
    >>> print(OptionalSpec("x", TensorSpec("", "float32", (3,))))
    float32[3] | None
    """

    element: Spec

    def __str__(self) -> str:
        return f"{self.element} | None"

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if not isinstance(value, tuple):
            yield path, f"{describe(value)}, expected {self}"
            return
        for item in value:
            yield from self.element.mismatches(item, path, check)

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        return Elements(() if value is None else (self.element.stage(value, path, refused),))

    def fit(self, value: Given, path: str, refused: dict[str, str]) -> Given:
        return value if value is None else self.element.fit(value, path, refused)

    @property
    def is_restored(self) -> bool:
        return True

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        assert isinstance(value, tvm_ffi.List)
        held = list(value)
        return self.element.from_runtime(held[0], release) if held else None

    def _fields_to_json(self) -> dict[str, Any]:
        return {"element": self.element.to_json()}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> OptionalSpec:
        return cls(data["name"], Spec.from_json(data["element"]))
