"""What rules for products have in common: their two factors, and the tile of the result that is in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad
from ...kernels.builder import T
from ...target.processor import Processor
from ...target.vectors import VectorUnit

__all__ = ["MOST_VECTORS", "Term", "factors_of", "fits", "terms_of", "tile_size"]

MOST_VECTORS = 8  # of columns in a tile
_LOAD = 0.6  # cycles of a load where there is not more to multiply: two go side by side, if not always


Factors = tuple[TensorLoad, TensorLoad]
Term = Callable[["tirx.Expr", "tirx.Expr"], "tirx.Expr"]


def factors_of(node: s_tir.SBlock, dtypes: Sequence[str] = ("float32",)) -> Factors | None:
    """Return the two elements, of one data type of some, whose products are added up, if that is what a block does."""
    term, dtype = _added(node), str(node.writes[0].source.dtype)
    return _elements(term, dtype) if isinstance(term, tirx.Mul) and dtype in dtypes else None


def terms_of(node: s_tir.SBlock, dtypes: Sequence[str]) -> tuple[Factors, Term] | None:
    """Return the two elements of which terms are made that a block adds up, and how; their order does not matter.

    Distances of rows have squares of differences, or their amounts, where products of matrices have products.
    """
    term, dtype = _added(node), str(node.writes[0].source.dtype)
    if dtype not in dtypes:
        return None
    made: Term = mul
    apart = term
    if isinstance(term, tirx.Mul) and isinstance(term.a, tirx.Sub):
        apart, made = term.a if tvm_ffi.structural_equal(term.a, term.b) else None, _squared_difference
    elif isinstance(term, tvm.ir.Call) and getattr(term.op, "name", "") == "tirx.fabs":
        apart, made = term.args[0], _difference
    is_known = isinstance(apart, tirx.Mul if made is mul else tirx.Sub)
    elements = _elements(apart, dtype) if is_known else None
    return None if elements is None else (elements, made)


def _added(node: s_tir.SBlock) -> tirx.Expr | None:
    """Return what a block adds to its sums, which begin at 0; None where it does something else."""
    value, start, sums = getattr(node.body, "value", None), getattr(node.init, "value", None), node.writes[0].source
    if not isinstance(value, tirx.Add) or getattr(start, "value", None) != 0:
        return None
    terms = [e for e in (value.a, value.b) if not (isinstance(e, TensorLoad) and e.source.same_as(sums))]
    return terms[0] if len(terms) == 1 else None


def _elements(pair: tirx.Mul | tirx.Sub, dtype: str) -> Factors | None:
    elements = (pair.a, pair.b)
    return elements if all(isinstance(x, TensorLoad) and str(x.source.dtype) == dtype for x in elements) else None


def _squared_difference(x: tirx.Expr, y: tirx.Expr) -> tirx.Expr:
    apart = T.Bind(x - y)
    return apart * apart


def _difference(x: tirx.Expr, y: tirx.Expr) -> tirx.Expr:
    return tirx.abs(x - y)


def fits(rows: int, vectors: int, unit: VectorUnit, beside: int = 1) -> bool:
    """Say whether a tile fits into the registers beside a row of the right operand, and so many others.

    A product needs an element of the left operand there, differences need room for themselves as well.
    """
    return rows * vectors + vectors + beside <= unit.registers


def tile_size(
    rows: int | None, columns: int | None, lanes: int, processor: Processor, least: int = 1, beside: int = 1
) -> tuple[int, int]:
    """Return rows and vectors of a tile that takes the fewest cycles by multiplications, loads and their latency."""
    unit, latency = processor.vectors, processor.rates.latency

    def cost(size: tuple[int, int]) -> tuple[float, int, int]:
        r, v = size
        tiles_down = 1 / r if rows is None else -(-rows // r)
        tiles_across = 1 / v if columns is None else -(-columns // (lanes * v))
        cycles = max(r * v / 2, (r + v) * _LOAD, latency) + 0.5
        return tiles_down * tiles_across * cycles, r + v, -v

    most_rows, most_vectors = rows or unit.registers, -(-(columns or MOST_VECTORS * lanes) // lanes)
    sizes = [
        (r, v)
        for r in range(least, min(unit.registers, most_rows) + 1)
        for v in range(1, min(MOST_VECTORS, most_vectors) + 1)
        if fits(r, v, unit, beside)
    ]
    return min(sizes, key=cost)
