"""How a dimension is written: ``4``, ``?``, ``n``, ``n * 4 + 1``, ``floordiv(n, 2)``, ``max(n, 1)``."""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.ir import Type, Var

from .dim import Dim

__all__ = ["DIM_FUNCTIONS", "DIM_OPERATORS", "dim_text", "own_name"]

# Sign and how tightly it binds, as in Python. Relay's text has no sign for the others: "//" begins a comment there.
DIM_OPERATORS: dict[str, tuple[type, int]] = {"+": (tirx.Add, 10), "-": (tirx.Sub, 10), "*": (tirx.Mul, 12)}
DIM_FUNCTIONS: dict[str, type] = {
    "floordiv": tirx.FloorDiv,
    "floormod": tirx.FloorMod,
    "max": tirx.Max,
    "min": tirx.Min,
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
    "eq": tirx.EQ,
    "ne": tirx.NE,
    "both": tirx.And,
    "either": tirx.Or,
    "select": tirx.Select,
}
_SIGNS = {node: (sign, binding) for sign, (node, binding) in DIM_OPERATORS.items()}
_FUNCTION_NAMES = {node: name for name, node in DIM_FUNCTIONS.items()}


def own_name(symbol: Var | Type) -> str:
    """Return the name that a symbolic dimension, or a type variable, was made with."""
    return getattr(symbol, "name_hint", None) or symbol.name


def dim_text(dim: Dim, symbol_name: Callable[[Var | Type], str] = own_name) -> str:
    """Return a dimension as Relay's text format writes it.

    Parameters
    ----------
    dim : int, relay.Any or tirx expression
        The dimension.
    symbol_name : callable
        Gives the name of a symbolic dimension; its own by default.
    """
    return _text(dim, 0, symbol_name)


def _text(dim: Dim, binding: int, name: Callable[[Var | Type], str]) -> str:
    if isinstance(dim, int):
        return str(dim)
    if isinstance(dim, Var):
        return name(dim)
    if isinstance(dim, tirx.IntImm):
        return str(int(dim.value))
    kind = type(dim)
    if kind in _SIGNS:
        sign, own = _SIGNS[kind]
        text = f"{_text(dim.a, own, name)} {sign} {_text(dim.b, own + 1, name)}"
        return f"({text})" if own < binding else text
    if kind is tirx.Select:
        operands = [dim.condition, dim.true_value, dim.false_value]
    elif kind in _FUNCTION_NAMES:
        operands = [dim.a, dim.b]
    else:
        return str(dim)
    return f"{_FUNCTION_NAMES[kind]}({', '.join(_text(d, 0, name) for d in operands)})"
