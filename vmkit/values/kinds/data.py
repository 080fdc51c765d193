"""Values of algebraic data types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from ..._dataclasses import dataclass
from ..._deferred import deferred
from .spec import Check, Mismatch, Spec, describe
from .value import Release, Value

if TYPE_CHECKING:
    import tvm_ffi
    from tvm.runtime import Device

    from .. import conversion, staging
    from .value import Given, NumpyValue, Result, RuntimeValue, Staged
else:
    tvm_ffi = deferred("tvm_ffi")
    conversion = deferred("vmkit.values.conversion")
    staging = deferred("vmkit.values.staging")

__all__ = ["ADT", "DataSpec"]


@dataclass(frozen=True)
class DataSpec(Spec, kind="data"):
    """A value of an algebraic data type.

    Parameters
    ----------
    name
        The parameter's name.
    type
        The type as Relay writes it.
    constructors
        The tag, the name and the number of fields of each constructor.

    >>> option = DataSpec("x", "Option[int32]", ((0, "Some", 1), (1, "None", 0)))
    >>> print(option, option.constructor(0))
    Option[int32] ('Some', 1)
    """

    type: str
    constructors: tuple[tuple[int, str, int], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "constructors", tuple((int(t), str(n), int(a)) for t, n, a in self.constructors))

    def __str__(self) -> str:
        return self.type

    def constructor(self, tag: int) -> tuple[str, int] | None:
        """Return the name and the number of fields of the constructor of a tag, or None."""
        return next(((name, arity) for own, name, arity in self.constructors if own == tag), None)

    def _mismatches(self, value: Staged, path: str, check: Check) -> Iterator[Mismatch]:
        """Yield what is wrong with the outermost constructor of a value; a program meets the others as it walks."""
        if not isinstance(value, ADT):
            yield path, f"{describe(value)}, expected vmkit.ADT(tag, fields) for {self}"
            return
        known = ", ".join(f"{own} for {name}" for own, name, _ in self.constructors)
        constructor = self.constructor(value.tag)
        if constructor is None:
            yield path, f"tag {value.tag} is of no constructor of {self}; its tags are {known}"
        elif len(value) != constructor[1]:
            yield path, f"{constructor[0]} has {constructor[1]} fields, got {len(value)}"

    def stage(self, value: Given, path: str, refused: dict[str, str]) -> Staged:
        return staging.staged_any(value, path, refused)

    def from_runtime(self, value: RuntimeValue, release: Release | None = None) -> Result:
        return conversion.from_runtime(value, release)

    def _fields_to_json(self) -> dict[str, Any]:
        return {"type": self.type, "constructors": [list(each) for each in self.constructors]}

    @classmethod
    def _of_json(cls, data: Mapping[str, Any]) -> DataSpec:
        return cls(data["name"], data["type"], tuple(tuple(each) for each in data["constructors"]))


class ADT(Sequence[Any], Value):
    """A value of an algebraic data type: the tag of its constructor and its fields.

    Fields are converted when they are asked for, so that a long list costs nothing until it is walked. Equality is
    identity, as for tensors.

    Examples
    --------
    >>> pair = ADT(1, [2.0, 3.0])
    >>> pair.tag, len(pair), pair[-1]
    (1, 2, 3.0)
    """

    __slots__ = ("_fields", "_release", "_runtime", "tag")

    def __init__(self, tag: int, fields: Sequence[Any] = ()) -> None:
        self.tag = int(tag)
        self._fields: tuple[Any, ...] | None = tuple(fields)
        self._runtime: tvm_ffi.Array | None = None
        self._release: Release | None = None

    @staticmethod
    def from_runtime(array: tvm_ffi.Array, release: Release | None = None) -> ADT:
        """Return the ADT value of an array ``[tag, *fields]``.

        `release` is given the array in a list when this value goes, and empties it where the stack is deep: a list
        of 200,000 elements is an array nested as deep, and TVM drops it by recursion.
        """
        value = ADT(array[0])
        value._fields, value._runtime, value._release = None, array, release
        return value

    def __del__(self) -> None:
        if self._release is not None and self._runtime is not None:
            # The list must be the only owner by the time it is emptied.
            owned, self._runtime = [self._runtime], None
            self._release(owned)

    @property
    def runtime(self) -> tvm_ffi.Array | None:
        """The array that a program returned, or None for a value made in Python."""
        return self._runtime

    @property
    def fields(self) -> tuple[Any, ...]:
        """The fields as Python values."""
        if self._fields is None:
            fields = list(self._runtime or ())[1:]
            self._fields = tuple(conversion.from_runtime(field, self._release) for field in fields)
        return self._fields

    def to_runtime(self, device: Device, *, share: bool = True) -> RuntimeValue:
        # By a stack, because a list in Python nests as deep as it is long.
        stack: list[tuple[ADT, list[Any]]] = [(self, [self.tag])]
        while True:
            node, done = stack[-1]
            if node.runtime is not None:
                result = node.runtime
            elif len(done) - 1 < len(node):
                field = node[len(done) - 1]
                if isinstance(field, ADT):
                    stack.append((field, [field.tag]))
                else:
                    done.append(conversion.to_runtime(staging.staged_any(field, "field", {}), device, share=share))
                continue
            else:
                result = tvm_ffi.Array(done)
            stack.pop()
            if not stack:
                return result
            stack[-1][1].append(result)

    def to_numpy(self) -> NumpyValue:
        return ADT(self.tag, [conversion.to_numpy(field) for field in self])

    def __len__(self) -> int:
        return len(self.fields)

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Any, ...]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self.fields[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fields)

    def __repr__(self) -> str:
        return f"ADT(tag={self.tag}, {len(self)} fields)"
