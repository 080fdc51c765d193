"""What a function takes and returns: names, dtypes and shapes whose dims may be names.

A :class:`Signature` binds Python arguments to parameters, checks values against what was declared, and prints as
``main(x: float32[n, 3], mask: bool[n]) -> float32[n]``. It knows nothing of TVM, so that reading one is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from ..errors import InputError, OptionError, suggest

__all__ = [
    "AnySpec",
    "DataSpec",
    "Dim",
    "OptionalSpec",
    "SequenceSpec",
    "Signature",
    "Spec",
    "TensorSpec",
    "TupleSpec",
    "UnrankedSpec",
]

Dim = int | str
"""An extent, a name that stands for the same extent everywhere, ``"?"``, or (outputs only) an expression of names."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor: its name, its dtype and its dims.

    >>> print(TensorSpec("x", "float32", ("n", 3)))
    float32[n, 3]
    """

    name: str
    dtype: str
    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for dim in self.shape:
            named = isinstance(dim, str) and bool(dim)
            if not named and (isinstance(dim, bool) or not isinstance(dim, int) or dim < 0):
                raise OptionError(f"{self.name}: dim {dim!r} is neither an extent, nor a name, nor '?'")

    def __str__(self) -> str:
        if not self.shape:
            return self.dtype
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class TupleSpec:
    """A tuple of further values."""

    name: str
    fields: tuple[Spec, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    def __str__(self) -> str:
        comma = "," if len(self.fields) == 1 else ""
        return f"({', '.join(map(str, self.fields))}{comma})"


@dataclass(frozen=True)
class DataSpec:
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

    name: str
    type: str
    constructors: tuple[tuple[int, str, int], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "constructors", tuple((int(t), str(n), int(a)) for t, n, a in self.constructors))

    def __str__(self) -> str:
        return self.type

    def constructor(self, tag: int) -> tuple[str, int] | None:
        """Return the name and the number of fields of the constructor of a tag, or None."""
        return next(((name, arity) for own, name, arity in self.constructors if own == tag), None)


@dataclass(frozen=True)
class AnySpec:
    """A value whose structure is not described: a function, a reference.

    Parameters
    ----------
    name
        The parameter's name.
    type
        What is known of its type, to be printed.
    """

    name: str
    type: str = "any"

    def __str__(self) -> str:
        return self.type


@dataclass(frozen=True)
class UnrankedSpec:
    """Tensors of a dtype and of any rank, the elements of a sequence.

    >>> print(UnrankedSpec("", "float32"))
    float32[...]
    """

    name: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[...]"


@dataclass(frozen=True)
class SequenceSpec:
    """A list of any length, all of whose elements match one spec.

    >>> print(SequenceSpec("xs", TensorSpec("", "float32", ("?", 3))))
    list[float32[?, 3]]
    """

    name: str
    element: Spec

    def __str__(self) -> str:
        return f"list[{self.element}]"


@dataclass(frozen=True)
class OptionalSpec:
    """A value that matches a spec, or None.

    >>> print(OptionalSpec("x", TensorSpec("", "float32", (3,))))
    float32[3] | None
    """

    name: str
    element: Spec

    def __str__(self) -> str:
        return f"{self.element} | None"


Spec = TensorSpec | TupleSpec | DataSpec | AnySpec | UnrankedSpec | SequenceSpec | OptionalSpec


class _TensorPlan(NamedTuple):
    """A TensorSpec taken apart for the check of a call: what to compare, by axis."""

    dtype: str
    rank: int
    fixed: tuple[tuple[int, int], ...]
    named: tuple[tuple[int, str], ...]


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
    def _plan(self) -> tuple[_TensorPlan, ...]:
        """What :meth:`accepts` compares: a name that occurs only once binds nothing and is left out."""
        plans = [_plan(spec) for spec in self.inputs if isinstance(spec, TensorSpec)]
        names = [name for plan in plans for _, name in plan.named]
        return tuple(
            plan._replace(named=tuple((axis, name) for axis, name in plan.named if names.count(name) > 1))
            for plan in plans
        )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
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

    def accepts(self, values: Sequence[Any]) -> bool:
        """Tell whether `values`, all of which have ``dtype`` and ``shape``, match a flat signature.

        This is the fast half of :meth:`check`: it says no without saying why.
        """
        bound: dict[str, int] | None = None
        for (dtype, rank, fixed, named), value in zip(self._plan, values):  # noqa: B905 - strict costs time
            shape = value.shape
            if len(shape) != rank or _dtype_name(value.dtype) != dtype:
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

    def check(self, values: Sequence[Any], refused: Mapping[str, str] | None = None) -> None:
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
        bound: dict[str, tuple[int, str]] = {}
        for spec, value in zip(self.inputs, values, strict=True):
            for path, problem in _mismatches(spec, value, spec.name, refused, bound):
                problems.append(f"{path}: {problem}")
                inputs.add(spec.name)
        if problems:
            count = "1 input does" if len(inputs) == 1 else f"{len(inputs)} inputs do"
            raise InputError("\n  ".join([f"{count} not match {self._header}", *problems]))

    def to_json(self) -> dict[str, Any]:
        """Return the signature as plain JSON values; :meth:`from_json` reads them."""
        return {
            "name": self.name,
            "inputs": [_spec_to_json(spec) for spec in self.inputs],
            "outputs": [_spec_to_json(spec) for spec in self.outputs],
            "result_is_tuple": self.result_is_tuple,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Signature:
        """Return the signature that :meth:`to_json` described."""
        return Signature(
            str(data["name"]),
            tuple(_spec_from_json(spec) for spec in data["inputs"]),
            tuple(_spec_from_json(spec) for spec in data["outputs"]),
            bool(data["result_is_tuple"]),
        )


@lru_cache(maxsize=256)
def _dtype_name(dtype: Any) -> str:
    """Return a dtype's name; cached because printing a numpy dtype costs more than the rest of the check."""
    return str(dtype)


def _named(spec: Spec) -> str:
    return f"{spec.name}: {spec}" if spec.name else str(spec)


def _plan(spec: TensorSpec) -> _TensorPlan:
    fixed = tuple((axis, dim) for axis, dim in enumerate(spec.shape) if isinstance(dim, int))
    named = tuple((axis, dim) for axis, dim in enumerate(spec.shape) if isinstance(dim, str) and dim != "?")
    return _TensorPlan(spec.dtype, len(spec.shape), fixed, named)


def _mismatches(
    spec: Spec, value: Any, path: str, refused: Mapping[str, str], bound: dict[str, tuple[int, str]]
) -> Iterator[tuple[str, str]]:
    """Yield ``(path, problem)`` for everything in `value` that `spec` does not allow."""
    if path in refused:
        yield path, refused[path]
    elif isinstance(spec, TupleSpec):
        if not isinstance(value, tuple):
            yield path, f"{describe(value)}, expected a tuple {spec}"
        elif len(value) != len(spec.fields):
            yield path, f"a tuple of {len(value)}, expected {len(spec.fields)} fields: {spec}"
        else:
            for index, (field, item) in enumerate(zip(spec.fields, value, strict=True)):
                yield from _mismatches(field, item, f"{path}[{index}]", refused, bound)
    elif isinstance(spec, SequenceSpec | OptionalSpec):
        yield from _element_mismatches(spec, value, path, refused, bound)
    elif isinstance(spec, UnrankedSpec):
        if not hasattr(value, "dtype") or _dtype_name(value.dtype) != spec.dtype:
            yield path, f"{_dtype_name(getattr(value, 'dtype', describe(value)))}, expected {spec}"
    elif isinstance(spec, DataSpec):
        yield from ((path, problem) for problem in _data_mismatches(spec, value))
    elif isinstance(spec, TensorSpec):
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            yield path, f"{describe(value)}, expected {spec}"
        else:
            yield from ((path, problem) for problem in _tensor_mismatches(spec, value, path, bound))


def _element_mismatches(
    spec: SequenceSpec | OptionalSpec,
    value: Any,
    path: str,
    refused: Mapping[str, str],
    bound: dict[str, tuple[int, str]],
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a staged list, or with an optional value: a list of at most one."""
    if not isinstance(value, tuple):
        yield path, f"{describe(value)}, expected {'a list: ' if isinstance(spec, SequenceSpec) else ''}{spec}"
        return
    for index, item in enumerate(value):
        below = f"{path}[{index}]" if isinstance(spec, SequenceSpec) else path
        yield from _mismatches(spec.element, item, below, refused, bound)


def _data_mismatches(spec: DataSpec, value: Any) -> Iterator[str]:
    """Yield what is wrong with the outermost constructor of a value; a program meets the others as it walks them."""
    tag = getattr(value, "tag", None)
    if tag is None:
        yield f"{describe(value)}, expected vmkit.ADT(tag, fields) for {spec}"
        return
    known = ", ".join(f"{own} for {name}" for own, name, _ in spec.constructors)
    constructor = spec.constructor(tag)
    if constructor is None:
        yield f"tag {tag} is of no constructor of {spec}; its tags are {known}"
    elif len(value) != constructor[1]:
        yield f"{constructor[0]} has {constructor[1]} fields, got {len(value)}"


def _tensor_mismatches(spec: TensorSpec, value: Any, path: str, bound: dict[str, tuple[int, str]]) -> Iterator[str]:
    dtype, shape = _dtype_name(value.dtype), tuple(value.shape)
    if dtype != spec.dtype:
        yield f'dtype {dtype}, expected {spec.dtype}; pass {path}.astype("{spec.dtype}")'
    if len(shape) != len(spec.shape):
        yield f"rank {len(shape)} (shape {shape}), expected rank {len(spec.shape)}: {spec}"
        return
    _, _, fixed, named = _plan(spec)
    for axis, extent in fixed:
        if shape[axis] != extent:
            yield f"dim {axis} is {shape[axis]}, expected {extent} (shape {shape}, expected {spec})"
    for axis, name in named:
        extent, first = bound.setdefault(name, (shape[axis], path))
        if shape[axis] != extent:
            yield f"{name} = {shape[axis]}, but {first} already bound {name} = {extent}"


def describe(value: Any) -> str:
    """Name a value in an error, without printing all of it."""
    kind = type(value).__name__
    if value is None or kind == "ndarray":
        return "None" if value is None else "an array"
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return f"{article} {kind}"


def _spec_to_json(spec: Spec) -> dict[str, Any]:
    match spec:
        case TensorSpec(name, dtype, shape):
            return {"kind": "tensor", "name": name, "dtype": dtype, "shape": list(shape)}
        case TupleSpec(name, fields):
            return {"kind": "tuple", "name": name, "fields": [_spec_to_json(field) for field in fields]}
        case UnrankedSpec(name, dtype):
            return {"kind": "unranked", "name": name, "dtype": dtype}
        case SequenceSpec(name, element):
            return {"kind": "sequence", "name": name, "element": _spec_to_json(element)}
        case OptionalSpec(name, element):
            return {"kind": "optional", "name": name, "element": _spec_to_json(element)}
        case DataSpec(name, ty, constructors):
            return {"kind": "data", "name": name, "type": ty, "constructors": [list(c) for c in constructors]}
        case AnySpec(name, ty):
            return {"kind": "any", "name": name, "type": ty}


def _spec_from_json(data: Mapping[str, Any]) -> Spec:
    match data["kind"]:
        case "tensor":
            return TensorSpec(data["name"], data["dtype"], tuple(data["shape"]))
        case "tuple":
            return TupleSpec(data["name"], tuple(_spec_from_json(field) for field in data["fields"]))
        case "unranked":
            return UnrankedSpec(data["name"], data["dtype"])
        case "sequence":
            return SequenceSpec(data["name"], _spec_from_json(data["element"]))
        case "optional":
            return OptionalSpec(data["name"], _spec_from_json(data["element"]))
        case "data":
            return DataSpec(data["name"], data["type"], tuple(tuple(c) for c in data["constructors"]))
        case "any":
            return AnySpec(data["name"], data.get("type", "any"))
        case kind:
            raise OptionError(f"unknown kind of spec {kind!r}, expected tensor, tuple, data, sequence, optional or any")
