"""Algebraic data types: their definitions, the constructors of their values, and Match, which takes values apart.

A :class:`TypeData` is a definition. It belongs to a module (see ``vmkit.relay.ir.definitions``) and is found there by
the name of its :class:`GlobalTypeVar`; ``List[int32]`` is a :class:`TypeCall` of that variable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm.ir import GlobalInfo, Span
from tvm_ffi.dataclasses import field

from .expr import Call, Expr, RelayExpr, Var
from .lifetime import py_class
from .types import FuncType, GlobalTypeVar, Type, TypeCall, TypeVar

__all__ = [
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
    "pattern_vars",
]


@py_class("relay.Constructor", init=False, repr=False)
class Constructor(Expr):
    """A constructor of an algebraic data type; called, it gives a value.

    Parameters
    ----------
    name_hint : str
        The name.
    inputs : sequence of Type
        The types of the fields, over the type variables of the definition.
    belong_to : GlobalTypeVar
        The type whose values it makes.
    tag : int
        What tells its values from those of the type's other constructors; the definition gives it.
    """

    name_hint: str
    # Over type variables that only the definition binds: a use is the same by name.
    inputs: tvm_ffi.Array = field(structural_eq="ignore")
    belong_to: GlobalTypeVar
    tag: int = field(structural_eq="ignore", default=-1)

    def __init__(
        self, name_hint: str, inputs: Sequence[Type], belong_to: GlobalTypeVar, tag: int = -1, span: Span | None = None
    ) -> None:
        self.__ffi_init__(name_hint=name_hint, inputs=list(inputs), belong_to=belong_to, tag=tag, span=span)

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)


@py_class("relay.TypeData", init=False)
class TypeData(GlobalInfo):
    """The definition of an algebraic data type.

    Parameters
    ----------
    header : GlobalTypeVar
        The name.
    type_vars : sequence of TypeVar
        The type parameters.
    constructors : sequence of Constructor
        All constructors; none for an ``extern type``. Each gets its tag here.

    Examples
    --------
    >>> from vmkit import relay
    >>> a, option = relay.TypeVar("A"), relay.GlobalTypeVar("Option")
    >>> some, none = relay.Constructor("Some", [a], option), relay.Constructor("None", [], option)
    >>> print(relay.TypeData(option, [a], [some, none]).instance())
    Option[A]
    """

    header: GlobalTypeVar
    type_vars: tvm_ffi.Array = field(structural_eq="def")
    constructors: tvm_ffi.Array
    # What constructors leave out of a comparison is compared here, below the type variables' binder.
    field_types: tvm_ffi.Array

    def __init__(
        self, header: GlobalTypeVar, type_vars: Sequence[TypeVar], constructors: Sequence[Constructor]
    ) -> None:
        prefix = _tag_prefix(header.name_hint)
        for index, constructor in enumerate(constructors):
            constructor.tag = prefix | index
        self.__ffi_init__(
            header=header,
            type_vars=list(type_vars),
            constructors=list(constructors),
            field_types=[list(c.inputs) for c in constructors],
        )

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__

    def instance(self, args: Sequence[Type] | None = None) -> TypeCall:
        """Return the type of its values for type arguments; by default its own type variables."""
        return TypeCall(self.header, list(self.type_vars) if args is None else list(args))

    def constructor_type(self, constructor: Constructor) -> FuncType:
        """Return the type of one of its constructors, as a function."""
        return FuncType(list(constructor.inputs), self.instance(), list(self.type_vars))


@py_class("relay.Pattern")
class Pattern(tvm_ffi.Object):
    """Base of patterns: what a value can look like."""

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.PatternWildcard", init=False)
class PatternWildcard(Pattern):
    """``_``, which matches everything."""

    def __init__(self) -> None:
        self.__ffi_init__()  # type: ignore[attr-defined]

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.PatternVar", init=False)
class PatternVar(Pattern):
    """``%x``, which matches everything and binds a variable to it."""

    var: Var = field(structural_eq="def")

    def __init__(self, var: Var) -> None:
        self.__ffi_init__(var=var)  # type: ignore[attr-defined]

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.PatternConstructor", init=False)
class PatternConstructor(Pattern):
    """``Cons(p, q)``, which matches a value of the constructor whose fields match, a pattern each."""

    constructor: Constructor
    patterns: tvm_ffi.Array

    def __init__(self, constructor: Constructor, patterns: Sequence[Pattern] | None = None) -> None:
        self.__ffi_init__(constructor=constructor, patterns=list(patterns or ()))  # type: ignore[attr-defined]

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.PatternTuple", init=False)
class PatternTuple(Pattern):
    """``(p, q)``, which matches a tuple whose fields match."""

    patterns: tvm_ffi.Array

    def __init__(self, patterns: Sequence[Pattern] | None = None) -> None:
        self.__ffi_init__(patterns=list(patterns or ()))  # type: ignore[attr-defined]

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.Clause", init=False)
class Clause(tvm_ffi.Object):
    """One case of a Match: a pattern, and what to compute where it matches."""

    lhs: Any
    rhs: Any

    def __init__(self, lhs: Pattern, rhs: RelayExpr) -> None:
        self.__ffi_init__(lhs=lhs, rhs=rhs)  # type: ignore[attr-defined]

    __eq__, __hash__ = tvm_ffi.Object.__eq__, tvm_ffi.Object.__hash__


@py_class("relay.Match", structural_eq="dag", init=False, repr=False)
class Match(Expr):
    """The right side of the first clause whose pattern matches a value.

    Parameters
    ----------
    data : Expr
        The value.
    clauses : sequence of Clause
        The cases, in order.
    complete : bool
        Whether the clauses must cover every value, which type inference then checks. Otherwise, written ``match?``,
        a value that none covers is an error at run time.
    """

    data: Any
    clauses: tvm_ffi.Array
    complete: bool = True

    def __init__(
        self, data: RelayExpr, clauses: Sequence[Clause], complete: bool = True, span: Span | None = None
    ) -> None:
        self.__ffi_init__(data=data, clauses=list(clauses), complete=complete, span=span)


def pattern_vars(pattern: Pattern) -> Iterator[Var]:
    """Yield the variables that a pattern binds, from left to right."""
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        if isinstance(current, PatternVar):
            yield current.var
        elif isinstance(current, PatternConstructor | PatternTuple):
            waiting += reversed(list(current.patterns))


def _tag_prefix(name: str) -> int:
    """Return the high byte of the tags of a type's constructors, as Relay on Linux chose it: signed, 32 bits wide.

    It is the low byte of ``std::hash`` of libstdc++ on 64 bits: MurmurHash64A by A. Appleby with the seed 0xc70f6907.
    """
    mask, factor = (1 << 64) - 1, 0xC6A4A7935BD1E995

    def mixed(value: int) -> int:
        return value ^ (value >> 47)

    data = name.encode()
    result = 0xC70F6907 ^ (len(data) * factor & mask)
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little")
        result = (result ^ (mixed(word * factor & mask) * factor & mask)) * factor & mask
    if whole < len(data):
        result = (result ^ int.from_bytes(data[whole:], "little")) * factor & mask
    result = mixed(mixed(result) * factor & mask)
    prefix = (result & 0xFF) << 24
    return prefix - (1 << 32) if prefix >= 1 << 31 else prefix
