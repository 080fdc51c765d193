"""Tensors: of declared dims, and of any rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..._dataclasses import dataclass
from ..._deferred import deferred
from ...errors import OptionError
from ..dims import Dim, TensorPlan, is_dim, tensor_plan
from .spec import Check, Mismatch, Spec, describe
from .value import Release

if TYPE_CHECKING:
    import numpy as np
    from tvm import runtime

    from .. import conversion, element_types, fitting, staging, stored
    from .value import Given, Result, RuntimeValue, Staged
else:
    runtime = deferred("tvm.runtime")
    conversion = deferred("vmkit.values.conversion")
    element_types = deferred("vmkit.values.element_types")
    fitting = deferred("vmkit.values.fitting")
    staging = deferred("vmkit.values.staging")
    stored = deferred("vmkit.values.stored")

__all__ = ["TensorSpec", "UnrankedSpec", "dtype_name"]


@dataclass(frozen=True)
class TensorSpec(Spec, kind="tensor"):
    """A tensor: its name, its dtype and its dims.

    >>> print(TensorSpec("x", "float32", ("n", 3)))
    float32[n, 3]
    """

    dtype: str
    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for dim in self.shape:
            if not is_dim(dim):
                raise OptionError(f"{self.name}: dim {dim!r} is neither an extent, nor a name, nor '?'")

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def plan(self) -> TensorPlan:
        """What to compare of a value."""
        return tensor_plan(self.dtype, self.shape)

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if value is None or not hasattr(value, "dtype") or not hasattr(value, "shape"):
            yield path, f"{describe(value)}, expected {self}"
            return
        dtype, shape = dtype_name(value.dtype), tuple(value.shape)
        if dtype != self.dtype:
            yield path, f'dtype {dtype}, expected {self.dtype}; pass {path}.astype("{self.dtype}")'
        _, rank, fixed, named = self.plan
        if len(shape) != rank:
            yield path, f"rank {len(shape)} (shape {shape}), expected rank {rank}: {self}"
            return
        for axis, extent in fixed:
            if shape[axis] != extent:
                yield path, f"dim {axis} is {shape[axis]}, expected {extent} (shape {shape}, expected {self})"
        for axis, name in named:
            problem = check.dims.disagreement(name, shape[axis], path)
            if problem is not None:
                yield path, problem

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        return staging.staged_tensor(value, self, path, refused)

    def fit(self, value: Given, path: str, refused: dict[str, str]) -> Given:
        return fitting.fitted_tensor(value, self, path, refused)

    @property
    def is_restored(self) -> bool:
        return element_types.is_stored_type(self.dtype)

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        if type(value) is runtime.Tensor:
            is_stored = element_types.is_stored_type(self.dtype)
            return stored.restored_tensor(value, self.dtype) if is_stored else value
        return conversion.from_runtime(value, release)

    def _fields_to_json(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape)}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> TensorSpec:
        return cls(data["name"], data["dtype"], tuple(data["shape"]))


_SHOWN = 3  # shapes that a text of a tensor of one of several has


@dataclass(frozen=True)
class UnrankedSpec(Spec, kind="unranked"):
    """Tensors of a dtype whose rank is known only when the program runs: of one of some shapes, or of any.

    >>> print(UnrankedSpec("", "float32"))
    float32[...]
    >>> print(UnrankedSpec("", "float32", ((4,), ("n", 4))))
    float32[4] or float32[n, 4]
    """

    dtype: str
    shapes: tuple[tuple[Dim, ...], ...] = ()

    def __str__(self) -> str:
        ways = [str(TensorSpec("", self.dtype, shape)) for shape in self.shapes]
        if len(ways) > _SHOWN:
            return f"{self.dtype}[...] of rank {len(self.shapes[0])} to {len(self.shapes[-1])}"
        return " or ".join(ways) or f"{self.dtype}[...]"

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if value is None or not hasattr(value, "dtype") or dtype_name(value.dtype) != self.dtype:
            yield path, f"{dtype_name(getattr(value, 'dtype', describe(value)))}, expected {self}"

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        return staging.staged_tensor(value, TensorSpec("", self.dtype, ()), path, refused)

    @property
    def is_restored(self) -> bool:
        return element_types.is_stored_type(self.dtype)

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        return TensorSpec("", self.dtype, ()).from_runtime(value, release)

    def _fields_to_json(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shapes": [list(shape) for shape in self.shapes]}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> UnrankedSpec:
        return cls(data["name"], data["dtype"], tuple(tuple(shape) for shape in data.get("shapes", ())))


@lru_cache(maxsize=256)
def dtype_name(dtype: np.dtype | runtime.DataType | str) -> str:
    """Return a dtype's name; cached because printing a numpy dtype costs more than the rest of the check."""
    return str(dtype)
