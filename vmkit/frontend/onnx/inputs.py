"""The types of a model's inputs: what the file says, what the caller says, and the names of unknown dimensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from tvm import ir, tirx

from ...errors import GivenInputsError, ModelError, suggest
from ...relay.ir import Any as AnyDim
from ...relay.ir import Dim, MapType, OptionalType, SequenceType, TensorType, Type, UnrankedType
from .dtype import dtype_name

__all__ = ["InputTypes"]

# What holds tensors, by the field that says so in the file.
_CONTAINERS: dict[str, Callable[[Type], Type]] = {"sequence_type": SequenceType, "optional_type": OptionalType}

# What exporters write as the name of a dimension that they do not know: text of TensorFlow's and Keras's None, of
# Paddle's -1, and the numbered names of tf2onnx. Such a name says nothing of another dimension that has it too.
_NO_NAME = re.compile(r"\s*(|\?|\*|none|null|unknown|-\d+|0|unk_*\d*)\s*", re.IGNORECASE)


class InputTypes:
    """Decides the type of every input of a graph.

    A dimension that the file names keeps its name, and is one symbol wherever the name appears; a dimension without
    a name is called after its input and axis. So is one whose name or size is what exporters write for an unknown one:
    ``?``, ``None``, ``unk__12``, -1 or 0. What the caller gives comes first: an int fixes a dimension (and, if
    the file names it, fixes it everywhere; 0 is an empty one here), a name renames it, and ``-1``, ``None``, ``"?"``
    or ``relay.Any()`` make it unknown. Two names for one of the file's make two dimensions of it: some files have one
    name for sizes that differ. Under the name of a dimension stands a pair of ints: the least and the largest
    size that it may have; the importer decides by them what depends on sizes, and the run fails for others.

    Attributes
    ----------
    ranges : dict
        Symbols whose sizes the caller limits, each with the least and the largest one.
    widened : dict
        Symbols that the caller put where the file has a fixed size, each with that size.
    """

    def __init__(self, shape: Mapping[str, Any] | None, dtype: str | Mapping[str, str]) -> None:
        self.shape = dict(shape or {})
        self.dtype = dtype
        self.symbols: dict[str, tirx.Var] = {}
        self.renamed: dict[str, Dim] = {}
        self.parted: set[str] = set()
        self.widened: dict[Any, int] = {}
        self.ranges: dict[tirx.Var, tuple[int, int]] = {}
        self.problems: list[str] = []
        self.in_file: set[str] = set()

    def types(self, inputs: Sequence[onnx.ValueInfoProto], initializers: Sequence[str]) -> dict[str, Type]:
        """Return the type of every input, in order; InputError with everything that is wrong with `shape`."""
        names = [i.name for i in inputs]
        limits = {k: self.shape.pop(k) for k, v in list(self.shape.items()) if k not in names and _is_range(v)}
        self._check_names(names, initializers)
        self.in_file = {d for i in inputs for d in _file_dims(i) or () if isinstance(d, str)}
        for info in inputs:
            if info.name in self.shape:
                self._learn_names(info)
        found = {info.name: self._type(info) for info in inputs}
        self._limit(limits, names)
        if self.problems:
            count = len(self.problems)
            head = (
                f"{count} thing{'s' if count > 1 else ''} given for the inputs {'do' if count > 1 else 'does'} not fit"
            )
            raise GivenInputsError(f"{head} the model:\n  " + "\n  ".join(self.problems))
        return found

    def _check_names(self, names: Sequence[str], initializers: Sequence[str]) -> None:
        given = {"shape": self.shape, "dtype": {} if isinstance(self.dtype, str) else self.dtype}
        for what, mapping in given.items():
            for name in mapping:
                if name in names:
                    continue
                if name in initializers:
                    self.problems.append(f"{what} of {name!r}: it is an initializer, whose type the model fixes")
                else:
                    hint = suggest(name, names) or _listed(names)
                    self.problems.append(f"{what} of {name!r}: the model has no such input{hint}")

    def _limit(self, limits: Mapping[str, tuple[int, int]], names: Sequence[str]) -> None:
        for name, (least, most) in limits.items():
            if name not in self.symbols:
                hint = suggest(name, [*names, *self.symbols]) or _listed(names)
                self.problems.append(
                    f"shape of {name!r}: the model has no such input{hint}; the names of dimensions, "
                    f"which may have ranges, are {', '.join(map(repr, self.symbols)) or 'none'}"
                )
            elif not 0 <= least <= most:
                self.problems.append(f"range of {name!r}: {least} to {most} holds no size")
            else:
                self.ranges[self.symbols[name]] = (least, most)

    def _learn_names(self, info: onnx.ValueInfoProto) -> None:
        """Take what the caller says about a dimension that the file names as said of that name."""
        declared, given = _file_dims(info), self.shape[info.name]
        if declared is None or not _is_shape(given) or len(given) != len(declared):
            return
        for old, new in zip(declared, given, strict=True):
            if not isinstance(old, str) or not isinstance(new, int | str) or _is_unknown(new):
                continue
            if isinstance(new, int) and new < 0:
                continue
            dim = new if isinstance(new, int) else self._symbol(new)
            known = self.renamed.setdefault(old, dim)
            if not isinstance(known, int) and not isinstance(dim, int) and known is not dim:
                self.parted.add(old)
            elif not _same(known, dim):
                self.problems.append(
                    f"shape of {info.name!r}: dimension {old!r} becomes {dim}, but {self.renamed[old]} in another input"
                )

    def _type(self, info: onnx.ValueInfoProto) -> Type:
        kind = info.type.WhichOneof("value")
        if kind in _CONTAINERS:
            below = onnx.ValueInfoProto(name=info.name, type=getattr(info.type, kind).elem_type)
            is_tensor = below.type.WhichOneof("value") in ("tensor_type", None)
            return _CONTAINERS[kind](self._element(below) if is_tensor else self._type(below))
        return self._map(info) if kind == "map_type" else self._tensor(info)

    def _map(self, info: onnx.ValueInfoProto) -> Type:
        """Return the type of a map: of numbers or texts by integers or texts, how many is known only at run time."""
        given = info.type.map_type
        if given.value_type.WhichOneof("value") != "tensor_type":
            raise ModelError(f"input {info.name!r} is a map of {given.value_type.WhichOneof('value')}, not of numbers")
        codes = {"keys": given.key_type, "values": given.value_type.tensor_type.elem_type}
        keys, values = (dtype_name(code, f"the {what} of input {info.name!r}") for what, code in codes.items())
        if keys != "string" and not keys.startswith(("int", "uint")):
            raise ModelError(f"input {info.name!r} is a map by {keys}; keys are integers or strings")
        return MapType(TensorType([AnyDim()], keys), TensorType([AnyDim()], values))

    def _element(self, info: onnx.ValueInfoProto) -> Type:
        """Return the type of the tensors in a sequence: dimensions without a fixed size may differ in each."""
        if _file_dims(info) is None and info.name not in self.shape:
            return UnrankedType(self._dtype(info))
        ty = self._tensor(info)
        return TensorType([d if isinstance(d, int) else AnyDim() for d in ty.shape], ty.dtype)

    def _tensor(self, info: onnx.ValueInfoProto) -> TensorType:
        dtype = self._dtype(info)
        declared = _file_dims(info)
        given = self.shape.get(info.name)
        if given is not None and not _is_shape(given):
            self.problems.append(f"shape of {info.name!r}: a sequence of dimensions was expected, not {given!r}")
            return TensorType((), dtype)
        if declared is None and given is None:
            self.problems.append(f"the model does not say how many dimensions {info.name!r} has; give them by shape=")
            return TensorType((), dtype)
        if given is None:
            assert declared is not None
            return TensorType([self._from_file(info.name, a, d) for a, d in enumerate(declared)], dtype)
        if declared is not None and len(given) != len(declared):
            self.problems.append(
                f"shape of {info.name!r}: {len(given)} dimensions {tuple(given)}, but the model's input has "
                f"{len(declared)}: ({', '.join('?' if d is None else str(d) for d in declared)})"
            )
            return TensorType((), dtype)
        old = declared if declared is not None else [None] * len(given)
        return TensorType(
            [self._given(info.name, a, d, o) for a, (d, o) in enumerate(zip(given, old, strict=True))], dtype
        )

    def _dtype(self, info: onnx.ValueInfoProto) -> str:
        if info.type.WhichOneof("value") not in ("tensor_type", None):
            raise ModelError(
                f"input {info.name!r} is a {info.type.WhichOneof('value')}; only tensors, maps, sequences of them "
                "and optional values can be inputs"
            )
        code = info.type.tensor_type.elem_type
        own = dtype_name(code, f"input {info.name!r}") if code else None
        asked = self.dtype if isinstance(self.dtype, str) else self.dtype.get(info.name)
        if own is None:
            return asked or "float32"
        if not isinstance(self.dtype, str) and asked is not None and asked != own:
            self.problems.append(f"dtype of {info.name!r}: {asked}, but the model's input is {own}")
        return own

    def _from_file(self, name: str, axis: int, dim: int | str | None) -> Dim:
        if isinstance(dim, int):
            return dim
        if dim is None:
            own = f"{name}_dim{axis}"
            while own in self.in_file:
                own += "_"
            return self._symbol(own)
        return self.renamed[dim] if dim in self.renamed and dim not in self.parted else self._symbol(dim)

    def _given(self, name: str, axis: int, dim: Any, old: int | str | None) -> Dim:
        if isinstance(dim, tirx.IntImm) or (not isinstance(dim, int | str) and hasattr(dim, "__index__")):
            dim = int(dim)
        if _is_unknown(dim):
            symbol = self._from_file(name, axis, old if isinstance(old, str) else None)
        elif isinstance(dim, int):
            if dim < 0:
                self.problems.append(f"shape of {name!r}: dimension {axis} is {dim}; -1 stands for an unknown one")
                return 1
            return dim
        elif isinstance(dim, str):
            symbol = self._symbol(dim)
        elif isinstance(dim, ir.Expr):
            symbol = dim
        else:
            self.problems.append(f"shape of {name!r}: dimension {axis} is {dim!r}; a dimension is an int or a name")
            return 1
        if isinstance(old, int) and isinstance(symbol, ir.Var):
            self.widened[symbol] = old
        return symbol

    def _symbol(self, name: str) -> tirx.Var:
        return self.symbols.setdefault(name, tirx.Var(name, "int64"))


def _is_shape(given: Any) -> bool:
    return (isinstance(given, Sequence) and not isinstance(given, str | bytes)) or hasattr(given, "__array__")


def _listed(names: Sequence[str]) -> str:
    return f"; the inputs are {', '.join(map(repr, names)) or 'none'}"


def _is_range(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and all(type(v) is int for v in given)


def _is_unknown(given: Any) -> bool:
    """Say whether the caller gives an unknown dimension."""
    if isinstance(given, str):
        return _names_nothing(given)
    return given is None or isinstance(given, AnyDim) or (isinstance(given, int) and given == -1)


def _names_nothing(name: str) -> bool:
    return _NO_NAME.fullmatch(name) is not None


def _same(a: Dim, b: Dim) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else a is b


def _file_dims(info: onnx.ValueInfoProto) -> list[int | str | None] | None:
    """Return the dimensions that the file declares: sizes, names, None for neither; None for an unknown rank.

    A size of 0 is an unknown one, as onnxruntime takes it: protobuf's default is what exporters leave there, and a
    model for nothing but empty tensors is of no use. Other sizes that are no sizes, such as -1, are unknown too.
    """
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    declared: list[int | str | None] = []
    for dim in tensor.shape.dim:
        match dim.WhichOneof("value"):
            case "dim_param":
                declared.append(None if _names_nothing(dim.dim_param) else dim.dim_param)
            case "dim_value" if dim.dim_value > 0:
                declared.append(int(dim.dim_value))
            case _:
                declared.append(None)
    return declared
