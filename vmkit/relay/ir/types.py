"""Relay's types, as nodes of TVM's IR.

Tuple types are TVM's own ``tvm.ir.TupleType``. A dimension of a :class:`TensorType` is an ``int``, an :class:`Any`
(unknown until run time), or a ``tvm.tirx`` integer expression over symbolic dimensions: equal symbols are equal
dimensions, which ``Any`` cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any as AnyValue

import tvm
import tvm_ffi
from tvm.ir import TupleType, Type
from tvm_ffi.dataclasses import field

from ..._tvm.running import array_items
from ...errors import DimensionError
from .dim import Any, Dim
from .dim_text import dim_text, own_name
from .dims import canonical
from .dtype import dtype_name
from .lifetime import py_class

__all__ = [
    "LARGEST_COUNT",
    "Any",
    "Dim",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "Kind",
    "MapType",
    "OptionalType",
    "RefType",
    "SequenceType",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeVar",
    "UnrankedType",
    "address",
    "brief_type_text",
    "composite_of",
    "dim_text",
    "distinct_parts",
    "is_symbolic",
    "rebuilt",
    "scalar_type",
    "type_parts",
    "type_text",
]


LARGEST_COUNT = 1 << 47
"""More elements than any tensor has: processes have addresses of 47 bits."""


class Kind:
    """What a type variable ranges over, numbered as in Relay."""

    Type = 0
    ShapeVar = 1
    BaseType = 2
    Shape = 3
    Constraint = 4
    AdtHandle = 5
    TypeData = 6


@py_class("relay.TensorType", init=False)
class TensorType(Type):
    """A tensor of a data type and a shape; rank 0 is a scalar.

    Parameters
    ----------
    shape : sequence of int, Any or tvm.tirx expression
        The dimensions. ``-1`` is refused: write ``relay.Any()``.
    dtype : str or numpy data type
        The element type, such as ``"float32"``.

    Examples
    --------
    >>> from vmkit import relay
    >>> print(relay.TensorType((relay.Any(), 4), "float32"))
    Tensor[(?, 4), float32]
    """

    shape: tvm_ffi.Array
    dtype: str

    def __init__(self, shape: Sequence[AnyValue], dtype: AnyValue = "float32") -> None:
        dims = [_dim(d) for d in shape]
        if prod(d for d in dims if type(d) is int and d) > LARGEST_COUNT:
            shown = ", ".join(str(d) if type(d) is int else "?" for d in dims)
            raise DimensionError(f"a tensor of ({shown}) has more elements than there are addresses, 2^47")
        self.__ffi_init__(shape=dims, dtype=dtype_name(dtype))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as a tuple of int; ValueError when a dimension is not known."""
        shape = tuple(self.shape)
        if not all(isinstance(d, int) for d in shape):
            raise ValueError(f"the shape of {self} is not known at compile time")
        return shape

    def __str__(self) -> str:
        return type_text(self)


def is_symbolic(value: AnyValue) -> bool:
    """Say whether a value is a dimension that is not known: ``Any``, or an expression of numbers, not of Relay."""
    return isinstance(value, Any) or (isinstance(value, tvm.ir.Expr) and isinstance(value.ty, tvm.ir.PrimType))


def _dim(value: AnyValue) -> AnyValue:
    """Return a dimension in canonical form: constants become int, symbolic expressions are simplified."""
    if type(value) is int:
        if value < 0:
            raise DimensionError(f"a dimension of a tensor type is {value}; write relay.Any() for an unknown one")
        return value
    if isinstance(value, tvm.tirx.IntImm):
        return _dim(int(value.value))
    if isinstance(value, Any):
        return value
    if is_symbolic(value):
        if isinstance(value, tvm.ir.Var):
            return value
        # A dimension that a script wrote is equal to the one that a type relation computed.
        return canonical(value)
    try:
        return _dim(int(value.__index__()))
    except AttributeError:
        raise TypeError(f"a dimension must be an int, relay.Any() or a symbolic integer, not {value!r}") from None


@py_class("relay.TypeVar", structural_eq="var", init=False)
class TypeVar(Type):
    """A type parameter of a function."""

    name_hint: str = field(structural_eq="ignore")
    kind: int

    def __init__(self, name_hint: str, kind: int = Kind.Type) -> None:
        self.__ffi_init__(name_hint=name_hint, kind=kind)

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__

    def __str__(self) -> str:
        return self.name_hint


@py_class("relay.FuncType", init=False)
class FuncType(Type):
    """The type of a function: parameters, result, and the type parameters it abstracts over.

    Constraints on the type parameters, which Relay's constructor took last, are kept; type inference reads none.
    """

    type_params: tvm_ffi.Array = field(structural_eq="def")
    arg_types: tvm_ffi.Array
    ret_type: Type
    type_constraints: tvm_ffi.Array = field(default_factory=list)

    def __init__(
        self,
        arg_types: Sequence[Type],
        ret_type: Type,
        type_params: Sequence[TypeVar] | None = (),
        type_constraints: Sequence[AnyValue] | None = (),
    ) -> None:
        self.__ffi_init__(
            type_params=list(type_params or ()),
            arg_types=list(arg_types),
            ret_type=ret_type,
            type_constraints=list(type_constraints or ()),
        )

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.IncompleteType", structural_eq="var", init=False)
class IncompleteType(Type):
    """A type that is not known yet: a hole that type inference fills."""

    kind: int

    def __init__(self, kind: int = Kind.Type) -> None:
        self.__ffi_init__(kind=kind)

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__

    def __str__(self) -> str:
        return "_"


@py_class("relay.GlobalTypeVar", init=False)
class GlobalTypeVar(Type):
    """The name of a data type that a module defines; those of the same name are the same type."""

    name_hint: str
    kind: int = field(structural_eq="ignore")

    def __init__(self, name_hint: str, kind: int = Kind.AdtHandle) -> None:
        self.__ffi_init__(name_hint=name_hint, kind=kind)

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__

    def __call__(self, *args: Type) -> TypeCall:
        return TypeCall(self, args)

    def __str__(self) -> str:
        return self.name_hint


@py_class("relay.TypeCall", init=False)
class TypeCall(Type):
    """A data type for given type arguments, such as ``List[int32]``."""

    func: Type
    args: tvm_ffi.Array

    def __init__(self, func: Type, args: Sequence[Type] = ()) -> None:
        self.__ffi_init__(func=func, args=list(args))

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.RefType", init=False)
class RefType(Type):
    """A reference to a value of a type."""

    value: Type

    def __init__(self, value: Type) -> None:
        self.__ffi_init__(value=value)

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.UnrankedType", init=False)
class UnrankedType(Type):
    """Tensors of a data type whose rank is known only when the program runs.

    Parameters
    ----------
    dtype : str
        The element type of the tensors.
    is_empty : bool
        Whether there is no such tensor, because a sequence is empty: it then agrees with sequences of every rank.
    alternatives : sequence of TensorType
        What the tensor may be, one type for each rank that it may have, in their order; none where it may have any.

    Examples
    --------
    >>> from vmkit import relay
    >>> ways = [relay.TensorType((4,), "float32"), relay.TensorType((relay.Any(), 4), "float32")]
    >>> print(relay.UnrankedType("float32", alternatives=ways))
    Tensor[(4) or (?, 4), float32]
    """

    dtype: str
    is_empty: bool
    alternatives: tvm_ffi.Array

    def __init__(self, dtype: AnyValue, is_empty: bool = False, alternatives: Sequence[TensorType] = ()) -> None:
        ranked = sorted(alternatives, key=lambda t: len(t.shape))
        self.__ffi_init__(dtype=dtype_name(dtype), is_empty=is_empty, alternatives=ranked)

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.SequenceType", init=False)
class SequenceType(Type):
    """A list of values of one type, of a length that is known only at run time.

    Parameters
    ----------
    element : Type
        The type of every element. Dimensions in which tensors differ are ``Any``; tensors that differ in rank, or of
        which the rank is not known, are an :class:`UnrankedType`.

    Examples
    --------
    >>> from vmkit import relay
    >>> print(relay.SequenceType(relay.TensorType((relay.Any(), 4), "float32")))
    seq(Tensor[(?, 4), float32])
    """

    element: Type

    def __init__(self, element: Type) -> None:
        self.__ffi_init__(element=element)

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.OptionalType", init=False)
class OptionalType(Type):
    """A value of a type, or nothing."""

    element: Type

    def __init__(self, element: Type) -> None:
        self.__ffi_init__(element=element)

    def __str__(self) -> str:
        return type_text(self)


@py_class("relay.MapType", init=False)
class MapType(Type):
    """A map from numbers or texts to numbers or texts: the tensors of its keys and of its values, in one order.

    Parameters
    ----------
    keys : Type
        A vector: no key is there twice.
    values : Type
        A vector of the same length; or a matrix, of a list of maps that have the same keys: a row is one of them.

    Examples
    --------
    >>> from vmkit import relay
    >>> print(relay.MapType(relay.TensorType((2,), "string"), relay.TensorType((relay.Any(), 2), "float32")))
    map(Tensor[(2), string], Tensor[(?, 2), float32])
    """

    keys: Type
    values: Type

    def __init__(self, keys: Type, values: Type) -> None:
        self.__ffi_init__(keys=keys, values=values)

    def __str__(self) -> str:
        return type_text(self)


_BRIEF = 50
"""How many types are in one that errors show whole."""


def scalar_type(dtype: str) -> TensorType:
    """Return the type of a 0-dimensional tensor."""
    return TensorType((), dtype)


_PARTS: dict[type, Callable[[AnyValue], list[Type]]] = {
    TupleType: lambda ty: array_items(ty.fields),
    FuncType: lambda ty: [*ty.arg_types, ty.ret_type],
    TypeCall: lambda ty: array_items(ty.args),
    RefType: lambda ty: [ty.value],
    SequenceType: lambda ty: [ty.element],
    OptionalType: lambda ty: [ty.element],
    MapType: lambda ty: [ty.keys, ty.values],
    UnrankedType: lambda ty: array_items(ty.alternatives),
}


def type_parts(ty: Type) -> list[Type]:
    """Return the types that a type is made of; none for a tensor type or a variable."""
    parts = _PARTS.get(type(ty))
    return parts(ty) if parts is not None else []


def address(ty: Type) -> int:
    """Return what tells a type from every other; types of TVM compare by structure and do not hash."""
    return tvm_ffi.Object.__hash__(ty)


def distinct_parts(ty: Type, resolve: Callable[[Type], Type] = lambda ty: ty) -> Iterator[Type]:
    """Yield what a type is made of at all levels, itself first, each as `resolve` returns it, and once."""
    waiting, seen = [ty], set[int]()
    while waiting:
        part = resolve(waiting.pop())
        below = type_parts(part)
        if below:
            if address(part) in seen:
                continue
            seen.add(address(part))
            waiting += reversed(below)
        yield part


def rebuilt(ty: Type, change: Callable[[Type], Type]) -> Type:
    """Return a type with `change` applied to what is not made of other types, at all levels."""
    done: dict[int, Type] = {}

    def rebuild(ty: Type) -> Type:
        parts = type_parts(ty)
        if not parts:
            return change(ty)
        if address(ty) not in done:
            done[address(ty)] = composite_of(ty, [rebuild(part) for part in parts])
        return done[address(ty)]

    return rebuild(ty)


def composite_of(ty: Type, parts: Sequence[Type]) -> Type:
    """Return a type like `ty` made of other parts, in the order of :func:`type_parts`."""
    match ty:
        case TupleType():
            return TupleType(list(parts))
        case FuncType():
            return FuncType(parts[:-1], parts[-1], list(ty.type_params), list(ty.type_constraints))
        case TypeCall():
            return TypeCall(ty.func, parts)
        case RefType():
            return RefType(parts[0])
        case SequenceType():
            return SequenceType(parts[0])
        case OptionalType():
            return OptionalType(parts[0])
        case MapType():
            return MapType(parts[0], parts[1])
        case UnrankedType():
            return UnrankedType(ty.dtype, ty.is_empty, [p for p in parts if isinstance(p, TensorType)])
    return ty


def _shape_text(ty: TensorType, symbol_name: Callable[[AnyValue], str]) -> str:
    return f"({', '.join([dim_text(d, symbol_name) for d in ty.shape[:]])})"


def brief_type_text(ty: Type) -> str:
    """Return a type as errors show it: of a large one, which may hold another many times, what is not deep in it."""
    sizes: dict[int, int] = {}

    def size(ty: Type) -> int:
        if address(ty) not in sizes:
            sizes[address(ty)] = 1 + sum(map(size, type_parts(ty)))
        return sizes[address(ty)]

    def cut(ty: Type, depth: int) -> Type:
        parts = type_parts(ty)
        if not parts or size(ty) <= _BRIEF:
            return ty
        return composite_of(ty, [cut(part, depth - 1) for part in parts]) if depth else GlobalTypeVar("...")

    return type_text(cut(ty, 3))


def type_text(ty: Type, symbol_name: Callable[[AnyValue], str] = own_name) -> str:
    """Return a type as Relay's text format writes it; `symbol_name` gives the names of symbolic dimensions."""
    match ty:
        case TensorType() if len(ty.shape) == 0:
            return ty.dtype
        case TensorType():
            return f"Tensor[{_shape_text(ty, symbol_name)}, {ty.dtype}]"
        case TupleType():
            fields = [type_text(f, symbol_name) for f in ty.fields]
            return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"
        case FuncType():
            params = f"[{', '.join(symbol_name(p) for p in ty.type_params)}]" if len(ty.type_params) else ""
            arguments = ", ".join(type_text(a, symbol_name) for a in ty.arg_types)
            return f"fn {params}({arguments}) -> {type_text(ty.ret_type, symbol_name)}"
        case TypeCall():
            return f"{ty.func}[{', '.join(type_text(a, symbol_name) for a in ty.args)}]"
        case RefType():
            return f"ref({type_text(ty.value, symbol_name)})"
        case SequenceType():
            return f"seq({type_text(ty.element, symbol_name)})"
        case OptionalType():
            return f"opt({type_text(ty.element, symbol_name)})"
        case MapType():
            return f"map({type_text(ty.keys, symbol_name)}, {type_text(ty.values, symbol_name)})"
        case UnrankedType():
            ways = " or ".join(_shape_text(t, symbol_name) for t in ty.alternatives)
            ways = f"or {ways}" if len(ty.alternatives) == 1 else ways  # not to be taken for a tensor of that shape
            return f"Tensor[{ways or ('_' if ty.is_empty else '?')}, {ty.dtype}]"
        case TypeVar():
            return symbol_name(ty)
    return str(ty)
