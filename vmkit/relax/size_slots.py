"""Which sizes a function needs while it runs, where each is kept, and where each can be computed.

All sizes of a function lie in one vector of integers, its *shape heap*: each symbol and each other expression has one
place in it. Symbols come from the shapes of parameters and from casts; an expression is computed where the last of its
symbols has come.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tvm_ffi
from tvm import ir, relax, tirx

from .._tvm.running import array_items
from ..errors import CompileError
from ..relay.ir.dims import structural_key
from ..relay.lower.checks import says_values
from .read_sizes import read_tensor
from .rewrite import bindings_of, nested_bindings, variables_in
from .shape_checks import Check, Checks

__all__ = ["PARTS", "Slots", "is_computed", "is_constant", "sizes_of", "type_is_sure"]

_CONSTANTS = (tirx.IntImm, tirx.FloatImm, ir.StringImm)

PARTS: Mapping[type, Callable[[Any], list[relax.Expr]]] = {
    relax.Call: lambda call: array_items(call.args),
    relax.Tuple: lambda whole: array_items(whole.fields),
}
"""The values that a value is made of, which may be, or have in them, sizes and shapes."""


class Slots:
    """The places of a function's shape heap.

    Parameters
    ----------
    name, function
        The function.
    checks
        Its checks, where the functions that compute sizes can fail; None where they cannot.

    Attributes
    ----------
    computed : dict of int to list of Expr
        The expressions that can be computed once a point is passed, by its number: 0 for the parameters, then that of
        each cast in the order of the program.
    read : dict of int to list of Var
        The symbols that a tensor tells at a point, which is read where others are computed.
    asked : dict of int to list of Check
        The checks that are made where sizes are computed, by the point.
    points : dict of Var to int
        The numbers of the casts that are made at run time, by their variables; casts that surely hold are not in it.
    registers : set of Var
        What is no symbol but a value of the program.
    """

    def __init__(self, name: str, function: relax.Function, checks: Checks | None = None) -> None:
        self.name = name
        self.computed: dict[int, list[ir.Expr]] = defaultdict(list)
        self.read: dict[int, list[ir.Var]] = {}
        self.asked: dict[int, list[Check]] = {}
        self._checks = checks
        self._asked: set[ir.Var] = set()
        self._is_loop = any(_calls(binding.value, name) for binding in nested_bindings(function.body))
        self.points: dict[relax.Var, int] = {}
        self.registers: set[ir.Var] = set(function.params)
        self.shapes: set[ir.Var] = set()
        self._places: dict[ir.Var | tvm_ffi.StructuralKey, int] = {}
        self._known_from: dict[ir.Var, int] = {}
        self._expressions: list[ir.Expr] = []
        for param in function.params:
            self._define(param.ty, 0)
            self._known_from.setdefault(param, 0)
        self._ask(None, 0)
        self._sequence(function.body)
        self.is_result_sure = type_is_sure(function.ret_ty, function.body.body, self.shapes)
        if not self.is_result_sure:
            self._note(*(size for each in sizes_of(function.ret_ty) for size in each))
        for expression in list(self._expressions):
            symbols = variables_in(expression)
            self._note(*symbols)
            self.computed[max(map(self._origin, symbols), default=0)].append(expression)
        for point in (*self.read, *self.asked):
            self.computed[point] += []

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, size: ir.Expr) -> bool:
        return _key(size) in self._places

    def place(self, size: ir.Expr) -> int:
        """Return the place of a size that is not constant."""
        return self._places[_key(size)]

    def _origin(self, symbol: ir.Var) -> int:
        if symbol not in self._known_from:
            raise CompileError(f"{self.name}: nothing gives the size {symbol} a value")
        return self._known_from[symbol]

    def _note(self, *sizes: ir.Expr) -> None:
        for size in sizes:
            if is_constant(size):
                continue
            key = _key(size)
            if key not in self._places:
                self._places[key] = len(self._places)
                if not isinstance(size, ir.Var):
                    self._expressions.append(size)

    def _define(self, ty: relax.Type, point: int) -> None:
        for sizes in sizes_of(ty):
            self._note(*sizes)
            for size in sizes:
                if isinstance(size, ir.Var):
                    self._known_from.setdefault(size, point)

    def _sequence(self, sequence: relax.SeqExpr) -> None:
        for binding in bindings_of(sequence):
            value = binding.value
            if binding.var in self._asked:
                continue
            self._value(value)
            if isinstance(binding, relax.MatchCast) and not type_is_sure(binding.ty, value, self.shapes):
                point = self.points[binding.var] = len(self.points) + 1
                if read_tensor(value) is not None and self._are_new(binding.ty.values):
                    self.read[point] = array_items(binding.ty.values)
                self._define(binding.ty, point)
                if point in self.read:
                    self._ask(binding.var, point)
            self.registers.add(binding.var)
            if isinstance(value, relax.ShapeExpr) and is_computed(value):
                self.shapes.add(binding.var)
        self._value(sequence.body)

    def _are_new(self, sizes: Iterable[ir.Expr]) -> bool:
        """Say whether sizes are symbols that nothing has told yet."""
        symbols = list(sizes)
        are_new = all(isinstance(s, ir.Var) and s not in self._known_from for s in symbols)
        return are_new and len(set(symbols)) == len(symbols)

    def _ask(self, cast: ir.Var | None, point: int) -> None:
        """Have the checks behind a cast, or the parameters, made where sizes are computed, if that is all of them."""
        checks = [] if self._checks is None else self._checks.behind(cast)
        # The text of an error with sizes in it takes LLVM as long as a function without.
        if not checks or (not self._is_loop and any(says_values(check.number) for check in checks)):
            return
        compared = [size for check in checks for size in (check.given[0], check.asked[0])]
        if point in self.read or not all(isinstance(size, ir.Var) or is_constant(size) for size in compared):
            self.asked[point] = checks
            self._asked.update(variable for check in checks for variable in check.variables)
            self._note(*variables_in(*compared))

    def is_asked(self, variable: ir.Var) -> bool:
        """Say whether a cast is a check that is made where sizes are computed, or the shape that it compares."""
        return variable in self._asked

    def _value(self, value: relax.Expr) -> None:
        kind = type(value)  # a program has very many values, and `isinstance` asks for each class in turn
        if kind is relax.ShapeExpr:
            self._note(*array_items(value.values))
        elif kind is relax.If:
            self._value(value.cond)
            self._sequence(value.true_branch)
            self._sequence(value.false_branch)
        elif kind in PARTS:
            for part in PARTS[kind](value):
                self._value(part)
        elif isinstance(value.ty, ir.PrimType) and value not in self.registers:
            self._note(value)


def _calls(value: relax.Expr, name: str) -> bool:
    return isinstance(value, ir.Call) and isinstance(value.op, ir.GlobalVar) and value.op.name_hint == name


def _key(size: ir.Expr) -> ir.Var | tvm_ffi.StructuralKey:
    return size if isinstance(size, ir.Var) else structural_key(size)


def is_constant(value: ir.Expr) -> bool:
    """Say whether a number or a size is in the program as it is."""
    return isinstance(value, _CONSTANTS)


def is_computed(shape: relax.ShapeExpr) -> bool:
    """Say whether a shape has a size that only the run knows."""
    return not all(type(size) is tirx.IntImm for size in array_items(shape.values))


def sizes_of(ty: relax.Type) -> Iterator[Iterable[ir.Expr]]:
    """Yield the sizes of each tensor and each shape in a type."""
    if isinstance(ty, relax.TupleType):
        for field in array_items(ty.fields):
            yield from sizes_of(field)
    elif isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        yield array_items(ty.shape.values)
    elif isinstance(ty, relax.ShapeType) and ty.values is not None:
        yield array_items(ty.values)


def type_is_sure(ty: relax.Type, value: relax.Expr, shapes: Iterable[ir.Var] = ()) -> bool:
    """Say whether a value is of a type by what is known of it. Of `shapes`, no more is known than their rank.

    Sizes are compared as they are written: what would have to be proved is checked when the program runs.
    """
    if isinstance(value, relax.ShapeExpr) and is_computed(value):
        return _is_base(ty, relax.ShapeType(ndim=len(value.values)))
    if isinstance(value, relax.Tuple) and isinstance(ty, relax.TupleType) and len(value.fields) == len(ty.fields):
        return all(type_is_sure(t, v, shapes) for t, v in zip(ty.fields, value.fields, strict=True))
    if isinstance(value, ir.Var) and value in shapes:
        return _is_base(ty, relax.ShapeType(ndim=value.ty.ndim))
    return _is_base(ty, value.ty)


def _is_base(ty: relax.Type, known: relax.Type) -> bool:
    """Say whether values of a known type are of another."""
    if isinstance(ty, relax.AnyType):
        return True
    if isinstance(ty, relax.TensorType) and isinstance(known, relax.TensorType):
        is_typed = ty.dtype is None or (known.dtype is not None and str(ty.dtype) == str(known.dtype))
        return is_typed and _is_shape(ty, known)
    if isinstance(ty, relax.ShapeType) and isinstance(known, relax.ShapeType):
        return _is_shape(ty, known)
    if isinstance(ty, relax.TupleType) and isinstance(known, relax.TupleType):
        fields = len(ty.fields) == len(known.fields)
        return fields and all(map(_is_base, ty.fields, known.fields))
    is_callable = isinstance(ty, relax.FuncType) and isinstance(known, relax.FuncType)
    return is_callable or bool(tvm_ffi.structural_equal(ty, known))


def _is_shape(ty: relax.TensorType | relax.ShapeType, known: relax.TensorType | relax.ShapeType) -> bool:
    sizes, present = ((t.shape if isinstance(t, relax.TensorType) else t.values) for t in (ty, known))
    if sizes is None:
        return bool(ty.ndim in (-1, known.ndim))
    return present is not None and bool(tvm_ffi.structural_equal(sizes, present))
