"""Sizes of PyTorch, ints and formulas of sympy, as sizes of Relax."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

import tvm
from tvm import relax, tirx

from ..errors import UnsupportedOperatorError
from ..relax.rewrite import variables_in
from .torch_arguments import Importing

if TYPE_CHECKING:
    import sympy
    import torch
    from torch import fx

__all__ = ["formula_of", "sizes_of"]


def sizes_of(importer: Importing, shape: Sequence[int | torch.SymInt]) -> list[tirx.Expr | None]:
    """Return sizes of PyTorch over the symbols that an importer has so far; None for one that is of none of these."""
    symbols = {s.name: s for v in importer.env.values() for s in _symbols(v)}
    return [_dim(d, symbols) for d in shape]


def formula_of(importer: Importing, value: int | fx.Node) -> tirx.Expr:
    """Return an argument that is an integer, or a node that computes one of sizes, as an expression."""
    (found,) = sizes_of(importer, [value if isinstance(value, int) else value.meta["val"]])
    if found is None:
        raise UnsupportedOperatorError(f"an integer that only data tells is not taken: {value}")
    return found


def _symbols(value: object) -> list[tirx.Var]:
    ty = getattr(value, "ty", None)
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return []
    return [var for size in ty.shape for var in variables_in(size) if isinstance(var, tvm.ir.Var)]


def _dim(size: int | torch.SymInt, symbols: Mapping[str, tirx.Var]) -> tirx.Expr | None:
    """Return a size of PyTorch's, an int or a formula, over Relax's symbols; None where it is of none of these."""
    if isinstance(size, int):
        return tirx.IntImm("int64", size)
    return _formula(size.node.expr, symbols)


def _formula(formula: sympy.Expr, symbols: Mapping[str, tirx.Var]) -> tirx.Expr | None:
    """Return a formula of sympy over symbols; a size that only data tells is a new one."""
    if formula.is_Integer:
        return tirx.IntImm("int64", int(formula))
    if formula.is_Symbol:
        return symbols.get(str(formula), tirx.Var(str(formula), "int64") if str(formula).startswith("u") else None)
    if type(formula).__name__ == "TruncToInt":
        return _scaled(formula.args[0], symbols)
    args = [_formula(a, symbols) for a in formula.args]
    make = _OPERATIONS.get(type(formula).__name__)
    if make is None or any(a is None for a in args):
        return None
    return make(*args)


def _scaled(product: sympy.Expr, symbols: Mapping[str, tirx.Var]) -> tirx.Expr | None:
    """Return the whole part of a size times a number, such as an image's that is resized by 1.5."""
    numbers = [float(a) for a in product.args if a.is_Float]
    sizes = [a.args[0] for a in product.args if type(a).__name__ == "ToFloat"]
    if not product.is_Mul or len(numbers) != 1 or len(sizes) != 1 or len(product.args) != 2:
        return None
    size, number = _formula(sizes[0], symbols), numbers[0]
    exact = Fraction(number)
    if size is None or not 0 < number < _LARGEST:
        return None
    if exact.denominator < _LARGEST:
        return tirx.floordiv(size * exact.numerator, exact.denominator)
    # PyTorch multiplies doubles, which for other numbers gives another whole part now and then than fractions do.
    return tirx.floor(size.astype("float64") * tirx.const(number, "float64")).astype("int64")


_LARGEST = 1 << 20  # sizes times a number below this stay far from the largest int64

_OPERATIONS: dict[str, Callable[..., tirx.Expr]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "FloorDiv": tirx.floordiv,
    "CleanDiv": tirx.floordiv,
    "CeilDiv": lambda a, b: tirx.floordiv(a + b - 1, b),
    "Mod": tirx.floormod,
    "PythonMod": tirx.floormod,
    "Max": lambda *values: reduce(tirx.max, values),
    "Min": lambda *values: reduce(tirx.min, values),
}
