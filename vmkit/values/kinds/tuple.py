"""Tuples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .data import ADT
from .spec import Check, Mismatch, Spec, describe
from .value import Release

if TYPE_CHECKING:
    import tvm_ffi

    from ..._tvm import running
    from .. import conversion
    from .value import Given, Result, RuntimeValue, Staged
else:
    tvm_ffi = deferred("tvm_ffi")
    running = deferred("vmkit._tvm.running")
    conversion = deferred("vmkit.values.conversion")

__all__ = ["TupleSpec"]


@dataclass(frozen=True)
class TupleSpec(Spec, kind="tuple"):
    """A tuple of further values."""

    fields: tuple[Spec, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    def __str__(self) -> str:
        comma = "," if len(self.fields) == 1 else ""
        return f"({', '.join(map(str, self.fields))}{comma})"

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if not isinstance(value, tuple):
            yield path, f"{describe(value)}, expected a tuple {self}"
        elif len(value) != len(self.fields):
            yield path, f"a tuple of {len(value)}, expected {len(self.fields)} fields: {self}"
        else:
            for index, (field, item) in enumerate(zip(self.fields, value, strict=True)):
                yield from field.mismatches(item, f"{path}[{index}]", check)

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        if not isinstance(value, (tuple, list, tvm_ffi.Array)):
            return value
        if len(value) != len(self.fields):
            return tuple(value)
        pairs = enumerate(zip(value, self.fields, strict=True))
        return tuple([field.stage(item, f"{path}[{index}]", refused) for index, (item, field) in pairs])

    def fit(self, value: Given, path: str, refused: dict[str, str]) -> Given:
        if isinstance(value, ADT) and value.tag == 0:
            value = value.fields  # how Relay's scripts make a tuple
        if not isinstance(value, (tuple, list, tvm_ffi.Array)) or len(value) != len(self.fields):
            return value
        pairs = enumerate(zip(value, self.fields, strict=True))
        return tuple([field.fit(item, f"{path}[{index}]", refused) for index, (item, field) in pairs])

    @property
    def is_restored(self) -> bool:
        return any(field.is_restored for field in self.fields)

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        if not isinstance(value, tvm_ffi.Array):
            return conversion.from_runtime(value, release)
        # Array's own iterator asks for the size before each item.
        items = running.array_items(value)
        if items and type(items[0]) is int:  # the tag of an ADT value
            return conversion.from_runtime(value, release)
        if len(items) != len(self.fields):
            raise ValueError(f"a tuple of {len(items)}, expected {len(self.fields)} fields")
        return tuple([field.from_runtime(item, release) for item, field in zip(items, self.fields, strict=True)])

    def knowing(self, same: bool | tuple[Any, ...]) -> Spec:
        if not isinstance(same, tuple) or len(same) != len(self.fields):
            return self
        pairs = zip(self.fields, same, strict=True)
        return TupleSpec(self.name, tuple(field.knowing(part) for field, part in pairs))

    def _fields_to_json(self) -> dict[str, Any]:
        return {"fields": [field.to_json() for field in self.fields]}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> TupleSpec:
        return cls(data["name"], tuple(Spec.from_json(field) for field in data["fields"]))
