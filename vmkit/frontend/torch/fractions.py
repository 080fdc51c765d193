"""Fractions that PyTorch computes of sizes, such as the scale of attention, as tensors of no axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add, mul
from typing import TYPE_CHECKING, cast

from tvm import relax, te, tirx

from .arguments import Importing, refused
from .formulas import expression_of

if TYPE_CHECKING:
    import sympy
    import torch
    from torch import fx

__all__ = ["with_fractions"]

_WIDE = "float64"  # as wide as Python's numbers


@contextmanager
def with_fractions(importer: Importing, node: fx.Node) -> Iterator[None]:
    """Let the fractions of sizes that a node computes with be tensors meanwhile."""
    import torch

    of_sizes = [
        each
        for each in node.all_input_nodes
        if isinstance(each.meta.get("val"), torch.SymFloat) and importer.env.get(each) is None
    ]
    importer.env.update({each: _tensor(importer, node, each.meta["val"]) for each in of_sizes})
    try:
        yield
    finally:
        importer.env.update(dict.fromkeys(of_sizes))


def _tensor(importer: Importing, node: fx.Node, value: torch.SymFloat) -> relax.Expr:
    fraction = _fraction_of(value.node.expr, importer.symbols.of(importer.env))
    if fraction is None:
        raise refused(node, f"takes the number {value}, which is no formula of the inputs' sizes")

    def kernel(number: tirx.Expr) -> te.Tensor:
        return te.compute([], lambda: number, name="fraction", tag="injective")

    return importer.block_builder.emit_te(kernel, fraction, primfunc_name_hint="fraction")


def _fraction_of(formula: sympy.Expr, symbols: Mapping[str, tirx.Expr]) -> tirx.Expr | None:
    """Return a formula of sympy whose value is a fraction; None where it is not one of the symbols."""
    if formula.is_Number:
        return tirx.const(float(formula), _WIDE)
    name = type(formula).__name__
    if name in _OF_INTEGERS:
        sizes = [expression_of(each, symbols) for each in formula.args]
        if any(size is None for size in sizes):
            return None
        return reduce(tirx.div, (cast("tirx.Expr", size).astype(_WIDE) for size in sizes))
    args = [_fraction_of(each, symbols) for each in formula.args]
    make = _OPERATIONS.get(name)
    return None if make is None or any(a is None for a in args) else make(*args)


def _power(base: tirx.Expr, exponent: tirx.Expr) -> tirx.Expr:
    """Return a power; a square root is rounded as it should be."""
    number = exponent.value if isinstance(exponent, tirx.FloatImm) else None
    if number in (0.5, -0.5):
        root = tirx.sqrt(base)
        return root if number == 0.5 else tirx.const(1.0, _WIDE) / root
    return tirx.pow(base, exponent)


_OF_INTEGERS = {"IntTrueDiv", "ToFloat"}
_OPERATIONS: dict[str, Callable[..., tirx.Expr]] = {
    "Add": lambda *terms: reduce(add, terms),
    "FloatPow": _power,
    "FloatTrueDiv": tirx.div,
    "Max": lambda *values: reduce(tirx.max, values),
    "Min": lambda *values: reduce(tirx.min, values),
    "Mul": lambda *factors: reduce(mul, factors),
    "OpaqueUnaryFn_exp": tirx.exp,
    "OpaqueUnaryFn_log": tirx.log,
    "OpaqueUnaryFn_log2": tirx.log2,
    "OpaqueUnaryFn_sqrt": tirx.sqrt,
}
