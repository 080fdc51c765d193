"""Maps, as Python's dicts: from numbers or texts to numbers or texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .spec import Check, Mismatch, Spec, describe
from .tensor import TensorSpec
from .value import Release

if TYPE_CHECKING:
    import numpy as np
    import tvm_ffi

    from ..._tvm import running
    from .. import conversion, element_types
    from .value import Given, Result, RuntimeValue, Staged
else:
    np = deferred("numpy")
    tvm_ffi = deferred("tvm_ffi")
    running = deferred("vmkit._tvm.running")
    conversion = deferred("vmkit.values.conversion")
    element_types = deferred("vmkit.values.element_types")

__all__ = ["MapSpec"]


@dataclass(frozen=True)
class MapSpec(Spec, kind="map"):
    """A dict, or a list of dicts that have the same keys. To a program it is a tensor of keys and one of values.

    The keys of a dict come out of a program and go into it in ascending order.

    Parameters
    ----------
    name
        The parameter's name.
    key, value
        The data types of keys and values.
    is_list
        Whether it is a list of dicts.

    >>> print(MapSpec("x", "string", "float32"), MapSpec("x", "int64", "float32", is_list=True))
    dict[string, float32] list[dict[int64, float32]]
    """

    key: str
    value: str
    is_list: bool = False

    # Of results that all have the same keys: nothing, and once they were read, these. None where keys may differ.
    _keys: ClassVar[list[list[Any]] | None] = None

    def __str__(self) -> str:
        one = f"dict[{self.key}, {self.value}]"
        return f"list[{one}]" if self.is_list else one

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        if not isinstance(value, Entries):
            yield path, f"{describe(value)}, expected {self}"

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        maps: Any = value if self.is_list else [value]
        if not isinstance(maps, list | tuple) or not all(type(m) is dict or isinstance(m, Mapping) for m in maps):
            return value
        wrong: dict[str, str] = {}
        keys = self._sorted_keys(maps, wrong)
        given: Any = [[item[key] for key in keys] for item in maps] if not wrong else []
        values = given if self.is_list or wrong else given[0]
        staged = [_vector(self.key).stage(keys, "keys", wrong)]
        plain = self._of_floats(values) if not wrong else None
        staged.append(_vector(self.value).stage(values, "values", wrong) if plain is None else plain)
        if not wrong:
            return Entries(staged)
        where, problem = next(iter(wrong.items()))
        refused[path] = f"its {where}: {problem}; expected {self}"
        return value

    def _of_floats(self, values: list[Any]) -> np.ndarray | None:
        """Return the values of one map as an array if they are Python's floats, which float32 just rounds; else None.

        What is expected of other values takes longer to look at.
        """
        if self.is_list or self.value != "float32" or not set(map(type, values)) <= {float}:
            return None
        # What is no number, is not below the bound either.
        return np.array(values, "float32") if all(map(_LARGEST.__ge__, map(abs, values))) else None

    def _sorted_keys(self, maps: Sequence[Any], wrong: dict[str, str]) -> list[Any]:
        """Return the keys of maps in their order; what is wrong with them goes to `wrong`."""
        kinds: tuple[type, ...] = (str, np.str_) if self.key == "string" else (int, np.integer)
        if not maps:
            wrong["keys"] = "a list of no dicts does not tell them"
        elif any(item.keys() != maps[0].keys() for item in maps):
            wrong["keys"] = "they differ between the dicts of the list"
        else:
            if set(map(type, maps[0])) <= {kinds[0]}:
                return sorted(maps[0])
            strange = next((key for key in maps[0] if not isinstance(key, kinds)), None)
            if strange is None:
                return sorted(maps[0])
            wrong["keys"] = f"{strange!r} is no {self.key}"
        return []

    @property
    def is_restored(self) -> bool:
        return True

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        assert isinstance(value, tvm_ffi.Array)
        keys = self._keys[0] if self._keys else self._read_keys(value)
        values = _listed(running.array_item(value, 1), self.value)
        if self.is_list:
            dicts: list[Result] = _dicts(keys, values)
            return dicts
        return dict(zip(keys, values, strict=True))

    def _read_keys(self, value: tvm_ffi.Array) -> list[Any]:
        keys = _listed(running.array_item(value, 0), self.key)
        if self._keys is not None:
            self._keys.append(keys)
        return keys

    def knowing(self, same: bool | tuple[Any, ...]) -> Spec:
        if not isinstance(same, tuple) or not same or same[0] is not True:
            return self
        made = MapSpec(self.name, self.key, self.value, self.is_list)
        object.__setattr__(made, "_keys", [])
        return made

    def _fields_to_json(self) -> dict[str, Any]:
        return {"key": self.key, "value": self.value, "is_list": self.is_list}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> MapSpec:
        return cls(data["name"], data["key"], data["value"], bool(data["is_list"]))


@lru_cache(maxsize=16)
def _vector(dtype: str) -> TensorSpec:
    """Return what is expected of the keys or the values of a map."""
    return TensorSpec("", dtype, ("?",))


_LARGEST = 3.4028234663852886e38  # of float32


class Entries(tuple[Any, ...]):
    """A staged map, or list of maps: its keys and its values."""

    __slots__ = ()


def _dicts(keys: list[Any], rows: list[list[Any]]) -> list[Result]:
    """Return the dict of each row of a matrix. Two or three keys, which most classifiers have, are written out: that
    takes a third of the time."""
    if len(keys) == 2:
        first, second = keys
        return [{first: a, second: b} for a, b in rows]
    if len(keys) == 3:
        first, second, third = keys
        return [{first: a, second: b, third: c} for a, b, c in rows]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _listed(tensor: RuntimeValue, dtype: str) -> list[Any]:
    """Return the elements of a tensor of a program as Python's numbers or texts, in lists as deep as its shape."""
    is_stored = element_types.is_stored_type(dtype)
    array = conversion.to_numpy(_vector(dtype).from_runtime(tensor) if is_stored else tensor)
    assert isinstance(array, np.ndarray)
    made: list[Any] = array.tolist()
    return made
