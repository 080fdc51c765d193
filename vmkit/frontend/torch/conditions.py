"""What PyTorch took for true of sizes when it exported a program, beside their ranges: checked when it runs.

A program that asks whether a height is a multiple of 32 is exported as one of the two ways, with the condition that led
there. PyTorch keeps these conditions as source; it is read here, and never run.
"""

from __future__ import annotations

import ast
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import tvm
from tvm import relax, tirx

from ..._tvm import begin_block, end_block
from ...relax.guards import with_divisors
from ...relax.rewrite import beginning_with, with_functions
from ...relay.ir import dims
from ...relay.lower.checks import RuntimeChecks

__all__ = ["with_conditions"]

_logger = logging.getLogger(__name__)

_ENDLESS = 1 << 62  # no size comes near it

Sizes = Mapping[str, Sequence[tirx.Expr]]


class _Unknown(Exception):
    """A condition is no formula of sizes."""


_LONGEST = 2000  # characters: what is nested deeper than so many could be is not for visitors that recurse


def with_conditions(mod: tvm.IRModule, conditions: Sequence[str], checks: RuntimeChecks) -> tvm.IRModule:
    """Return a module whose ``main`` checks conditions on the sizes of its inputs, such as ``L['x'].size()[1] > 7``."""
    function = mod["main"]
    sizes = {p.name: list(p.ty.shape) for p in function.params if getattr(p.ty, "shape", None) is not None}
    builder = relax.BlockBuilder()
    begin_block(builder)
    numbers = _Numbers(function.params, builder)
    unknown: list[str] = []
    for condition in conditions:
        try:
            holds = _Reader(sizes, numbers).condition(_parsed(condition))
        except (_Unknown, RecursionError):
            unknown.append(condition)
            continue
        message = f"the sizes are not those that the program was exported for: {_text(condition)} does not hold"
        checks.emit(builder, dims.select(holds, 1, 0), 1, message)
    if unknown:
        others = f", nor {len(unknown) - 1} more" if len(unknown) > 1 else ""
        text = "PyTorch's condition %.200s is not checked%s: it is no formula of inputs' sizes"
        _logger.warning(text, unknown[0], others)
    block = end_block(builder)
    if not len(block.bindings):
        return mod
    return with_functions(mod, {mod.get_global_var("main"): beginning_with(function, block)})


def _parsed(condition: str) -> ast.expr:
    """Return a condition as Python reads it; a file may hold any text in its place."""
    if len(condition) > _LONGEST:
        raise _Unknown
    try:
        return ast.parse(condition, mode="eval").body
    except (SyntaxError, ValueError, MemoryError) as error:
        raise _Unknown from error


def _text(condition: str) -> str:
    """Return a condition for a message, in which braces would be fields."""
    text = condition.replace("torch.sym_float", "float").replace("math.", "").replace(".size()", ".shape")
    return text.replace("{", "{{").replace("}", "}}")


class _Numbers:
    """Inputs that are one integer, read for conditions alone: what is computed of them is read where it is."""

    def __init__(self, params: Sequence[relax.Var], builder: relax.BlockBuilder) -> None:
        self._params = {p.name: p for p in params if isinstance(p.ty, relax.TensorType) and not p.ty.ndim}
        self._builder, self._read = builder, dict[str, tirx.Expr]()

    def read(self, name: str) -> tirx.Expr:
        param = self._params.get(name)
        if param is None or str(param.ty.dtype) != "int64":
            raise _Unknown
        if name not in self._read:
            emit, number = self._builder.emit, tirx.Var(f"{name}_number", "int64")
            row = emit(relax.op.reshape(param, relax.ShapeExpr([1])))
            self._builder.match_cast(emit(relax.op.tensor_to_shape(row)), relax.ShapeType([number]))
            self._read[name] = number
        return self._read[name]


class _Reader:
    """Reads conditions as expressions over the sizes of inputs, and over integers that are inputs."""

    def __init__(self, sizes: Sizes, numbers: _Numbers) -> None:
        self._sizes, self._numbers = sizes, numbers

    def condition(self, node: ast.expr) -> tirx.Expr:
        match node:
            case ast.Compare() if all(type(op) in _COMPARED for op in node.ops):
                values = [self.number(each) for each in (node.left, *node.comparators)]
                found = [_COMPARED[type(op)](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False)]
                return tirx.all(*found)
            case ast.BoolOp():
                parts = [self.condition(each) for each in node.values]
                return (tirx.all if isinstance(node.op, ast.And) else tirx.any)(*parts)
            case ast.UnaryOp(op=ast.Not()):
                return tirx.Not(self.condition(node.operand))
        raise _Unknown

    def number(self, node: ast.expr) -> tirx.Expr:
        match node:
            case ast.Constant(value=float() as value):
                return tirx.const(value, "float64")
            case ast.Constant(value=int() as value) if not isinstance(value, bool) and value < _ENDLESS:
                return tirx.const(value, "int64")
            case ast.UnaryOp(op=ast.USub()):
                return -self.number(node.operand)
            case ast.BinOp() if type(node.op) in _COMBINED:
                return _COMBINED[type(node.op)](*_alike(self.number(node.left), self.number(node.right)))
            case ast.Call(func=ast.Attribute(attr=name), args=[argument]) if name in _CONVERTED:
                return _CONVERTED[name](self.number(argument))
            case ast.Call(func=ast.Name(id=name), args=[first, *rest]) if name in _CHOSEN and rest:
                values = [self.number(each) for each in (first, *rest)]
                return reduce(lambda a, b: _CHOSEN[name](*_alike(a, b)), values)
            case ast.Subscript(value=ast.Call(), slice=ast.Constant(value=int() as axis)):
                return self._size(node.value, axis)
            case ast.Subscript():
                return self._numbers.read(_input(node))
        raise _Unknown

    def _size(self, call: ast.expr, axis: int) -> tirx.Expr:
        match call:
            case ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[]):
                shape = self._sizes.get(_input(tensor), ())
                if axis < len(shape):
                    return shape[axis]
        raise _Unknown


def _input(node: ast.expr) -> str:
    """Return the name of the input that ``L['x']`` is, or ``L['args'][0]``."""
    match node:
        case ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=str() as name)):
            return name
        case ast.Subscript(value=ast.Subscript(), slice=ast.Constant(value=int() | str() as key)):
            return f"{_input(node.value)}_{key}"
    raise _Unknown


def _alike(a: tirx.Expr, b: tirx.Expr) -> tuple[tirx.Expr, tirx.Expr]:
    """Return two numbers in one type, floats where one of them is."""
    dtype = "float64" if "float64" in (str(a.ty.dtype), str(b.ty.dtype)) else "int64"
    return a.astype(dtype), b.astype(dtype)


def _divided(divide: Callable[..., tirx.Expr]) -> Callable[[tirx.Expr, tirx.Expr], tirx.Expr]:
    """Return a division of integers, of which the quotient by a size that is 0 is that by 1."""

    def quotient(a: tirx.Expr, b: tirx.Expr) -> tirx.Expr:
        if str(b.ty.dtype) != "int64" or (isinstance(b, tirx.IntImm) and int(b) == 0):
            raise _Unknown
        return with_divisors(divide(a, b))

    return quotient


def _compared(compare: Callable[..., tirx.Expr]) -> Callable[[tirx.Expr, tirx.Expr], tirx.Expr]:
    return lambda a, b: compare(*_alike(a, b))


_COMPARED: dict[type, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {
    ast.Eq: _compared(tirx.EQ),
    ast.NotEq: _compared(tirx.NE),
    ast.Lt: _compared(operator.lt),
    ast.LtE: _compared(operator.le),
    ast.Gt: _compared(operator.gt),
    ast.GtE: _compared(operator.ge),
}
_COMBINED: dict[type, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: a.astype("float64") / b.astype("float64"),
    ast.FloorDiv: _divided(tirx.floordiv),
    ast.Mod: _divided(tirx.floormod),
}
_CHOSEN: dict[str, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {"max": tirx.max, "min": tirx.min}
_CONVERTED: dict[str, Callable[[tirx.Expr], tirx.Expr]] = {
    "ceil": lambda x: tirx.ceil(x).astype("int64"),
    "floor": lambda x: tirx.floor(x).astype("int64"),
    "sym_float": lambda x: x.astype("float64"),
    "trunc": lambda x: tirx.trunc(x).astype("int64"),
}
"""Functions by the names that they have in conditions."""
