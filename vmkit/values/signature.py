"""What a function takes and returns: names, dtypes and shapes whose dims may be names.

A :class:`Signature` binds Python arguments to parameters, checks values against what was declared, and prints as
``main(x: float32[n, 3], mask: bool[n]) -> float32[n]``. It knows nothing of TVM, so that reading one is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from .._dataclasses import dataclass
from ..errors import InputError, OptionError, suggest
from .dims import Dim, TensorPlan
from .kinds import AnySpec, DataSpec, MapSpec, OptionalSpec, SequenceSpec, Spec, TensorSpec, TupleSpec, UnrankedSpec
from .kinds.spec import Check
from .kinds.tensor import dtype_name

if TYPE_CHECKING:
    from .kinds.value import Given, Staged

__all__ = [
    "AnySpec",
    "DataSpec",
    "Dim",
    "MapSpec",
    "OptionalSpec",
    "SequenceSpec",
    "Signature",
    "Spec",
    "TensorSpec",
    "TupleSpec",
    "UnrankedSpec",
]

T = TypeVar("T")


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of one function.

    Parameters
    ----------
    name
        The function's name.
    inputs
        One spec per parameter, in order.
    outputs
        What comes back: one spec, or the fields when `result_is_tuple`; empty if not known.
    result_is_tuple
        Whether the result is a tuple even if it has a single field.

    Examples
    --------
    >>> x = TensorSpec("x", "float32", ("n", 3))
    >>> print(Signature("main", (x,), (TensorSpec("", "float32", ("n",)),)))
    main(x: float32[n, 3]) -> float32[n]
    """

    name: str
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...] = ()
    result_is_tuple: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", tuple(self.inputs))
        object.__setattr__(self, "outputs", tuple(self.outputs))
        names = [spec.name for spec in self.inputs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise OptionError(f"{self.name}: more than one parameter is named {', '.join(map(repr, twice))}")

    def __str__(self) -> str:
        return self._header + self._result()

    @cached_property
    def _header(self) -> str:
        return f"{self.name}({', '.join(_named(spec) for spec in self.inputs)})"

    def _result(self) -> str:
        if not self.outputs and not self.result_is_tuple:
            return ""
        if not self.result_is_tuple and len(self.outputs) == 1 and not self.outputs[0].name:
            return f" -> {self.outputs[0]}"
        comma = "," if self.result_is_tuple and len(self.outputs) == 1 else ""
        return f" -> ({', '.join(_named(spec) for spec in self.outputs)}{comma})"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parameters' names, in order."""
        return tuple(spec.name for spec in self.inputs)

    @cached_property
    def is_flat(self) -> bool:
        """Whether every input is a tensor, so that :meth:`accepts` can judge a call."""
        return all(isinstance(spec, TensorSpec) for spec in self.inputs)

    @cached_property
    def _plan(self) -> tuple[TensorPlan, ...]:
        """What :meth:`accepts` compares: a name that occurs only once binds nothing and is left out."""
        plans = [spec.plan for spec in self.inputs if isinstance(spec, TensorSpec)]
        names = [name for plan in plans for _, name in plan.named]
        return tuple(
            plan._replace(named=tuple((axis, name) for axis, name in plan.named if names.count(name) > 1))
            for plan in plans
        )

    def bind(self, args: Sequence[T], kwargs: Mapping[str, T]) -> list[T]:
        """Return one value per parameter, in order.

        Raises
        ------
        InputError
            With all that is wrong: parameters missing or given twice, names that do not exist, too many values.
        """
        if not kwargs and len(args) == len(self.inputs):
            return list(args)
        if not args and len(kwargs) == len(self.inputs):
            try:
                return [kwargs[name] for name in self.names]
            except KeyError:
                pass  # told below, with all else that is wrong
        problems = []
        if len(args) > len(self.inputs):
            problems.append(f"{len(args)} positional arguments, expected at most {len(self.inputs)}")
        values = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names:
                problems.append(f"{name}: no such input{suggest(name, self.names)}")
            elif name in values:
                problems.append(f"{name}: given by position {self.names.index(name)} and by name")
            else:
                values[name] = value
        problems.extend(f"{spec.name}: missing, expected {spec}" for spec in self.inputs if spec.name not in values)
        if problems:
            raise InputError("\n  ".join([f"the arguments do not fit {self._header}", *problems]))
        return [values[name] for name in self.names]

    def fit(self, values: Sequence[Given]) -> list[Given]:
        """Return bound values, those of another data type or rank converted where that loses nothing.

        Relay's interfaces take an int32 array for a bool, a vector of one element for a scalar, float64 for float32;
        :meth:`check` and the functions of a program do not.

        Raises
        ------
        InputError
            With one line per value that would be another one.
        """
        refused: dict[str, str] = {}
        fitted = [spec.fit(value, spec.name, refused) for value, spec in zip(values, self.inputs, strict=True)]
        if refused:
            count = "1 input" if len(refused) == 1 else f"{len(refused)} inputs"
            lines = [f"{path}: {problem}" for path, problem in refused.items()]
            raise InputError("\n  ".join([f"{count} cannot be converted without a loss for {self._header}", *lines]))
        return fitted

    def accepts(self, values: Sequence[Any]) -> bool:
        """Tell whether `values`, all of which have ``dtype`` and ``shape``, match a flat signature.

        This is the fast half of :meth:`check`: it says no without saying why.
        """
        bound: dict[str, int] | None = None
        for (dtype, rank, fixed, named), value in zip(self._plan, values):  # noqa: B905 - strict costs time
            shape = value.shape
            if len(shape) != rank or dtype_name(value.dtype) != dtype:
                return False
            for axis, extent in fixed:
                if shape[axis] != extent:
                    return False
            if not named:
                continue
            if bound is None:
                bound = {}
            for axis, name in named:
                extent = shape[axis]
                if bound.setdefault(name, extent) != extent:
                    return False
        return True

    def is_implied_by(self, checked: Sequence[Any]) -> bool:
        """Tell whether values that passed other checks match this signature, which must be flat.

        Parameters
        ----------
        checked
            For each parameter what was checked of it (see :class:`vmkit.bytecode.CheckedTensor`), or None.
        """
        places: dict[str, int] = {}
        for (dtype, rank, fixed, named), own in zip(self._plan, checked, strict=True):
            if own is None or (own.dtype, own.rank) != (dtype, rank) or not set(fixed) <= set(own.fixed):
                return False
            stored = dict(own.stored)
            for axis, name in named:
                if axis not in stored or places.setdefault(name, stored[axis]) != stored[axis]:
                    return False
        return True

    def check(self, values: Sequence[Staged], refused: Mapping[str, str] | None = None) -> None:
        """Check bound values against the specs: structure, dtype, rank, dims, names that stand for one extent.

        Parameters
        ----------
        values
            One per parameter: things with ``dtype`` and ``shape``, tuples of them for a :class:`TupleSpec`.
        refused
            What is already known to be wrong, by the path of the value (``"x"``, ``"state[1]"``); such a value is
            not looked at again.

        Raises
        ------
        InputError
            With one line per value that does not match.
        """
        refused = refused or {}
        if self.is_flat and not refused and all(hasattr(value, "dtype") for value in values) and self.accepts(values):
            return
        problems: list[str] = []
        inputs: set[str] = set()
        check = Check(refused)
        for spec, value in zip(self.inputs, values, strict=True):
            for path, problem in spec.mismatches(value, spec.name, check):
                problems.append(f"{path}: {problem}")
                inputs.add(spec.name)
        if problems:
            count = "1 input does" if len(inputs) == 1 else f"{len(inputs)} inputs do"
            raise InputError("\n  ".join([f"{count} not match {self._header}", *problems]))

    def to_json(self) -> dict[str, Any]:
        """Return the signature as plain JSON values; :meth:`from_json` reads them."""
        return {
            "name": self.name,
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "result_is_tuple": self.result_is_tuple,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Signature:
        """Return the signature that :meth:`to_json` described."""
        return Signature(
            str(data["name"]),
            tuple(Spec.from_json(spec) for spec in data["inputs"]),
            tuple(Spec.from_json(spec) for spec in data["outputs"]),
            bool(data["result_is_tuple"]),
        )


def _named(spec: Spec) -> str:
    return f"{spec.name}: {spec}" if spec.name else str(spec)
