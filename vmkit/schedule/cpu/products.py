"""What rules for products have in common: their two factors, and the tile of the result that is in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import s_tir, tirx

from ..._tvm.nodes import TensorLoad
from ...target.processor import Processor
from ...target.vectors import VectorUnit

__all__ = ["MOST_VECTORS", "factors_of", "fits", "tile_size"]

MOST_VECTORS = 8  # of columns in a tile
_LOAD = 0.6  # cycles of a load where there is not more to multiply: two go side by side, if not always


def factors_of(node: s_tir.SBlock, dtypes: Sequence[str] = ("float32",)) -> tuple[TensorLoad, TensorLoad] | None:
    """Return the two elements, of one data type of some, whose products are added up, if that is what a block does."""
    value, start, sums = getattr(node.body, "value", None), getattr(node.init, "value", None), node.writes[0].source
    if not isinstance(value, tirx.Add) or getattr(start, "value", None) != 0 or str(sums.dtype) not in dtypes:
        return None
    own, product = (value.a, value.b) if isinstance(value.b, tirx.Mul) else (value.b, value.a)
    if not (isinstance(product, tirx.Mul) and isinstance(own, TensorLoad) and own.source.same_as(sums)):
        return None
    factors = (product.a, product.b)
    are_read = all(isinstance(x, TensorLoad) and str(x.source.dtype) == str(sums.dtype) for x in factors)
    return factors if are_read else None


def fits(rows: int, vectors: int, unit: VectorUnit) -> bool:
    """Say whether a tile fits into the registers beside a row of the right operand and an element of the left one."""
    return rows * vectors + vectors + 1 <= unit.registers


def tile_size(
    rows: int | None, columns: int | None, lanes: int, processor: Processor, least: int = 1
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
        if fits(r, v, unit)
    ]
    return min(sizes, key=cost)
