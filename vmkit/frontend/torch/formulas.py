"""Sizes of PyTorch, ints and formulas of sympy, as sizes of Relax."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING

from tvm import tirx

from .arguments import Converter, Importing, refused

if TYPE_CHECKING:
    import sympy
    import torch
    from torch import fx

__all__ = ["OF_SIZES", "expression_of", "formula_of", "known_sizes", "number_of", "sizes_of"]


def sizes_of(importer: Importing, shape: Sequence[int | torch.SymInt]) -> list[tirx.Expr | None]:
    """Return sizes of PyTorch over the symbols that an importer has so far; None for one that is of none of these."""
    symbols = importer.symbols.of(importer.env)
    return [_dim(d, symbols) for d in shape]


def known_sizes(importer: Importing, node: fx.Node) -> list[tirx.Expr]:
    """Return the sizes of a node's result; UnsupportedOperatorError where one is not known."""
    shape = node.meta["val"].shape
    sizes = [size for size in sizes_of(importer, shape) if size is not None]
    if len(sizes) < len(shape):
        raise refused(node, f"gives a tensor of {tuple(shape)}, of which a size is no formula of the inputs' sizes")
    return sizes


def formula_of(importer: Importing, node: fx.Node, value: int | fx.Node) -> tirx.Expr:
    """Return a node's argument that is an integer, or a node that computes one of sizes, as an expression."""
    (found,) = sizes_of(importer, [value if isinstance(value, int) else value.meta["val"]])
    if found is None:
        raise refused(node, f"takes the number {value}, which is no formula of the inputs' sizes")
    return found


def number_of(importer: Importing, node: fx.Node, value: torch.SymInt | torch.SymFloat) -> tirx.Expr:
    """Return a number that is computed of sizes; of a fraction that is a whole number, the whole one."""
    formula = value.node.expr
    while type(formula).__name__ == "ToFloat":
        formula = formula.args[0]
    found = expression_of(formula, importer.symbols.of(importer.env))
    if found is None:
        raise refused(node, f"takes the number {value}, which is no formula of the inputs' sizes")
    return found


def _dim(size: int | torch.SymInt, symbols: Mapping[str, tirx.Expr]) -> tirx.Expr | None:
    """Return a size of PyTorch's, an int or a formula, over Relax's symbols; None where it is of none of these."""
    if isinstance(size, int):
        return tirx.IntImm("int64", size)
    return expression_of(size.node.expr, symbols)


def expression_of(formula: sympy.Expr, symbols: Mapping[str, tirx.Expr]) -> tirx.Expr | None:
    """Return a formula of sympy over symbols; a size that only data tells is a new one."""
    if formula.is_Integer:
        return tirx.IntImm("int64", int(formula))
    if formula.is_Symbol:
        return symbols.get(str(formula), tirx.Var(str(formula), "int64") if str(formula).startswith("u") else None)
    if type(formula).__name__ == "TruncToInt":
        return _scaled(formula.args[0], symbols)
    args = [expression_of(a, symbols) for a in formula.args]
    make = _OPERATIONS.get(type(formula).__name__)
    if make is None or any(a is None for a in args):
        return None
    return make(*args)


def _scaled(product: sympy.Expr, symbols: Mapping[str, tirx.Expr]) -> tirx.Expr | None:
    """Return the whole part of a size times a number, such as an image's that is resized by 1.5."""
    numbers = [float(a) for a in product.args if a.is_Float]
    sizes = [a.args[0] for a in product.args if type(a).__name__ == "ToFloat"]
    if not product.is_Mul or len(numbers) != 1 or len(sizes) != 1 or len(product.args) != 2:
        return None
    size, number = expression_of(sizes[0], symbols), numbers[0]
    exact = Fraction(number)
    if size is None or not 0 < number < _LARGEST:
        return None
    if exact.denominator < _LARGEST:
        return tirx.floordiv(size * exact.numerator, exact.denominator)
    # PyTorch multiplies doubles, which for other numbers gives another whole part now and then than fractions do.
    return tirx.floor(size.astype("float64") * tirx.const(number, "float64")).astype("int64")


def _power(base: tirx.Expr, exponent: tirx.Expr) -> tirx.Expr | None:
    """Return a power of a size by a number from 1 on."""
    count = int(exponent) if isinstance(exponent, tirx.IntImm) else 0
    return reduce(operator.mul, [base] * count) if 0 < count <= _MOST_FACTORS else None


_MOST_FACTORS = 8
_LARGEST = 1 << 20  # sizes times a number below this stay far from the largest int64

_OPERATIONS: dict[str, Callable[..., tirx.Expr | None]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "FloorDiv": tirx.floordiv,
    "CleanDiv": tirx.floordiv,
    "CeilDiv": lambda a, b: tirx.floordiv(a + b - 1, b),
    "Mod": tirx.floormod,
    "PythonMod": tirx.floormod,
    "Pow": lambda base, exponent: _power(base, exponent),
    "PowByNatural": lambda base, exponent: _power(base, exponent),
    "Max": lambda *values: reduce(tirx.max, values),
    "Min": lambda *values: reduce(tirx.min, values),
}


def _computed(importer: Importing, node: fx.Node) -> tirx.Expr:
    """Return a size that is computed of others."""
    return formula_of(importer, node, node)


def _said(importer: Importing, node: fx.Node) -> None:
    """Return nothing for what is said of sizes: it is read where PyTorch demands that it is true."""


OF_SIZES: dict[str, Converter] = {
    **dict.fromkeys(
        ("sym_max", "sym_min", "sym_numel.default", "sym_storage_offset.default", "sym_stride.int", "sym_sum"),
        _computed,
    ),
    **dict.fromkeys(("and_", "or_", "sym_not"), _said),
}
"""The converters of nodes that compute numbers, by the names of Python's and PyTorch's functions."""
