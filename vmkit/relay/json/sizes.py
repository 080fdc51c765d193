"""Sizes in types and attributes: symbols, the unknown ``Any``, and arithmetic over them.

Symbols were int32 or int64; they are int64 here. A size that went through floats is unknown until run time.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import tvm
from tvm import tirx

from ..._dataclasses import dataclass
from ...errors import ModelError
from ..ir import Any as AnyDim
from ..ir import Dim, dims
from .kinds import Kind, Node, fields_of
from .slots import STRING

if TYPE_CHECKING:
    from .reader import NodeReader
    from .writer import NodeWriter

__all__ = ["SIZE_KEYS", "SIZE_KINDS", "write_size"]

# The arithmetic of sizes recurses in TVM, and a graph may stand for a far larger tree.
_LONGEST = 500


class _Symbol:
    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        name = fields_of(node)["name"]
        return (name,) if STRING.refers(name, reader) else ()

    def make(self, node: Node, reader: NodeReader) -> Dim:
        return tirx.Var(STRING.read(fields_of(node)["name"], reader), "int64")


class _Unknown:
    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        return ()

    def make(self, node: Node, reader: NodeReader) -> Dim:
        return AnyDim()


@dataclass(frozen=True)
class _Operation:
    """An operation on sizes; unknown as soon as an operand is unknown, or no integer."""

    operands: tuple[str, ...]
    compute: Callable[..., Any]

    def references(self, node: Node, reader: NodeReader) -> Iterable[Any]:
        fields = fields_of(node)
        return [fields[name] for name in self.operands]

    def make(self, node: Node, reader: NodeReader) -> Dim:
        indices = self.references(node, reader)
        values = [reader.made(index) for index in indices]
        for name, value in zip(self.operands, values, strict=True):
            if not isinstance(value, int | float | tvm.ir.Expr):
                raise ModelError(f"field {name!r} is a {type(value).__name__}, expected a size")
        if reader.count_terms(indices) > _LONGEST:
            raise ModelError(f"is a size of more than {_LONGEST} terms")
        if any(isinstance(value, AnyDim | float) for value in values):
            return AnyDim()
        return self.compute(*values)


def _comparison(on_numbers: Callable[[Any, Any], Any], node: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compute(a: Dim, b: Dim) -> Dim:
        if isinstance(a, int) and isinstance(b, int):
            return bool(on_numbers(a, b))
        return node(dims.as_expr(a), dims.as_expr(b))

    return compute


def _condition(value: Dim) -> tirx.Expr:
    return tirx.IntImm("bool", int(value)) if isinstance(value, int) else value


def _select(condition: Dim, a: Dim, b: Dim) -> Dim:
    if isinstance(condition, int):
        return a if condition else b
    return dims.select(condition, a, b)


def _cast(value: Dim) -> Dim:
    return value


_AB = ("a", "b")
_ARITHMETIC: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "Add": (_AB, dims.add),
    "Sub": (_AB, dims.sub),
    "Mul": (_AB, dims.mul),
    "FloorDiv": (_AB, dims.floordiv),
    "FloorMod": (_AB, dims.floormod),
    "Max": (_AB, dims.maximum),
    "Min": (_AB, dims.minimum),
    "EQ": (_AB, _comparison(operator.eq, tirx.EQ)),
    "NE": (_AB, _comparison(operator.ne, tirx.NE)),
    "LT": (_AB, _comparison(operator.lt, tirx.LT)),
    "LE": (_AB, _comparison(operator.le, tirx.LE)),
    "GT": (_AB, _comparison(operator.gt, tirx.GT)),
    "GE": (_AB, _comparison(operator.ge, tirx.GE)),
    "And": (_AB, lambda a, b: dims.simplify(tirx.And(_condition(a), _condition(b)))),
    "Or": (_AB, lambda a, b: dims.simplify(tirx.Or(_condition(a), _condition(b)))),
    "Select": (("condition", "true_value", "false_value"), _select),
}

SIZE_KINDS: dict[str, Kind] = {f"tir.{name}": _Operation(*row) for name, row in _ARITHMETIC.items()}
SIZE_KINDS |= {
    "tir.Any": _Unknown(),
    "tir.Call": _Unknown(),
    "tir.Cast": _Operation(("value",), _cast),
    # Sizes are not negative, where the two kinds of division and remainder agree.
    "tir.Div": SIZE_KINDS["tir.FloorDiv"],
    "tir.Mod": SIZE_KINDS["tir.FloorMod"],
    "tir.SizeVar": _Symbol(),
    "tir.Var": _Symbol(),
}

SIZE_KEYS: dict[type, str] = {getattr(tirx, name): f"tir.{name}" for name in _ARITHMETIC}
_IS_CONDITION = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or"})


def write_size(value: tvm.ir.Expr, writer: NodeWriter) -> dict[str, str]:
    """Return the fields of a node for a symbol, ``Any``, or an operation on sizes."""
    if isinstance(value, AnyDim):
        return {"dtype": "int32", "span": "0"}
    if isinstance(value, tvm.ir.Var):
        annotation = writer.raw_index("PrimType", {"dtype": "int64"})
        return {"dtype": "int64", "name": str(writer.index(value.name)), "span": "0", "type_annotation": annotation}
    name = SIZE_KEYS[type(value)].removeprefix("tir.")
    operands = {o: str(writer.index(getattr(value, o))) for o in _ARITHMETIC[name][0]}
    return {**operands, "dtype": "bool" if name in _IS_CONDITION else "int64", "span": "0"}
