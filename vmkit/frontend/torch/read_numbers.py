"""Numbers of PyTorch that are read from tensors when a program runs, and what it demands of them and of sizes."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer, ConstIntBound

from ...relax.rewrite import variables_in
from ...relay.ir import dims
from .arguments import Importing, arguments_of, cast_to
from .effects import read_number
from .formulas import expression_of

if TYPE_CHECKING:
    import sympy
    from torch import fx

__all__ = ["READ_NUMBERS"]

_logger = logging.getLogger(__name__)


def _read(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return the one number of a tensor: an integer as the symbol of it that sizes are computed of."""
    import torch

    value = node.meta.get("val")
    if isinstance(value, torch.SymFloat):  # it stays a tensor, of no axes, as wide as Python's numbers
        tensor = cast_to(importer, importer.env[arguments_of(node)[0]], "float64")
        return importer.block_builder.emit(relax.op.reshape(tensor, relax.ShapeExpr([])))
    if not isinstance(value, torch.SymInt) or not value.node.expr.is_Symbol:
        return own(node)
    name = str(value.node.expr)
    number = read_number(importer, importer.env[arguments_of(node)[0]], name)
    importer.symbols.note(importer.env, number)
    return number


def _demanded(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Check a condition on numbers, unless it holds for all sizes."""
    given, message = arguments_of(node)
    value = getattr(given, "meta", {}).get("val")
    if isinstance(given, bool | int) or value is None or not hasattr(value, "node"):
        return None
    symbols = importer.symbols.of(importer.env)
    holds = _condition(value.node.expr, symbols)
    used = [] if holds is None else [var for var in variables_in(holds) if isinstance(var, tvm.ir.Var)]
    if holds is None or any(var.name not in symbols for var in used):
        _logger.warning("PyTorch's condition %.200s is not checked: it is no formula of numbers that are read", value)
        return None
    analyzer = Analyzer()
    for var in used:
        if var not in importer.read_sizes.symbols:
            analyzer.update(var, ConstIntBound(0, ConstIntBound.POS_INF))
    if not analyzer.can_prove(holds):
        text = f"{message}".replace("{", "{{").replace("}", "}}")
        importer.checks.emit(importer.block_builder, dims.select(holds, 1, 0), 1, text)
    return None


def _condition(formula: sympy.Basic, symbols: Mapping[str, tirx.Expr]) -> tirx.Expr | None:
    """Return a condition of sympy over symbols; None for one that is no comparison of formulas."""
    name = type(formula).__name__
    if name in _JOINED or name == "Not":
        parts = [_condition(each, symbols) for each in formula.args]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return tirx.Not(known[0]) if name == "Not" else reduce(_JOINED[name], known)
    if name not in _COMPARED:
        return None
    first, second = (expression_of(each, symbols) for each in formula.args)
    return None if first is None or second is None else _COMPARED[name](first, second)


_JOINED: dict[str, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {"And": tirx.And, "Or": tirx.Or}
_COMPARED: dict[str, Callable[[tirx.Expr, tirx.Expr], tirx.Expr]] = {
    "Equality": tirx.EQ,
    "Unequality": tirx.NE,
    "GreaterThan": operator.ge,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "StrictLessThan": operator.lt,
}

READ_NUMBERS: dict[str, Callable[..., object]] = {
    "_assert_scalar.default": _demanded,
    "_local_scalar_dense.default": _read,
    "item.default": _read,
}
"""The converters that leave some nodes to TVM's, by the names of PyTorch's operators."""
