"""Lists of any length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .spec import Check, Mismatch, Spec, describe
from .value import Release, Value

if TYPE_CHECKING:
    import tvm_ffi
    from tvm.runtime import Device

    from .. import conversion
    from .value import Given, Result, RuntimeValue, Staged
else:
    tvm_ffi = deferred("tvm_ffi")
    conversion = deferred("vmkit.values.conversion")

__all__ = ["Elements", "SequenceSpec"]


@dataclass(frozen=True)
class SequenceSpec(Spec, kind="sequence"):
    """A list of any length, all of whose elements match one spec.

    >>> from vmkit.values.kinds import TensorSpec
    >>> print(SequenceSpec("xs", TensorSpec("", "float32", ("?", 3))))
    list[float32[?, 3]]
    """

    element: Spec

    def __str__(self) -> str:
        return f"list[{self.element}]"

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if not isinstance(value, tuple):
            yield path, f"{describe(value)}, expected a list: {self}"
            return
        for index, item in enumerate(value):
            yield from self.element.mismatches(item, f"{path}[{index}]", check)

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        if not isinstance(value, (tuple, list, tvm_ffi.Array, tvm_ffi.List)):
            return value
        return Elements([self.element.stage(item, f"{path}[{index}]", refused) for index, item in enumerate(value)])

    def fit(self, value: Given, path: str, refused: dict[str, str]) -> Given:
        if not isinstance(value, (tuple, list, tvm_ffi.Array, tvm_ffi.List)):
            return value
        return [self.element.fit(item, f"{path}[{index}]", refused) for index, item in enumerate(value)]

    @property
    def is_restored(self) -> bool:
        return True

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        assert isinstance(value, tvm_ffi.List)
        return [self.element.from_runtime(item, release) for item in value]

    def _fields_to_json(self) -> dict[str, Any]:
        return {"element": self.element.to_json()}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> SequenceSpec:
        return cls(data["name"], Spec.from_json(data["element"]))


class Elements(tuple[Any, ...], Value):
    """A staged sequence, or an optional value: to a program, a list."""

    __slots__ = ()

    def to_runtime(self, device: Device, *, share: bool = True) -> RuntimeValue:
        return tvm_ffi.List([conversion.to_runtime(item, device, share=share) for item in self])
