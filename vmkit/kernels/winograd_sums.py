"""The sum itself in a kernel of Winograd's convolution, for images of which only the run tells that they are small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul

from tvm import tirx

from .builder import Size, T, as_expr, broadcast, in_parallel, in_register, integer, loop, memory, ramp, reinterpreted
from .packed_gemm import write_products
from .packed_gemm_plan import PackedGemmImage, PackedGemmShape, PackedGemmWindow, plan_of_any_size
from .winograd_shape import WinogradCosts, WinogradShape

__all__ = ["are_few", "write_sums"]

_UNROLLED = 2  # steps of a sum: a divisor of the channels, which are whole vectors


def are_few(shape: WinogradShape, costs: WinogradCosts, rows: int, tiles: tirx.Expr, results: tirx.Expr) -> tirx.Expr:
    """Return whether the sum itself of so many results is faster than so many tiles, `rows` of them at a time."""
    inner, outer = shape.inner, shape.outer
    products = tirx.floordiv(tiles + (rows - 1), rows) * costs.products + costs.weight
    by_tiles = inner * outer * products + tiles * (inner * costs.data + outer * costs.result)
    sums = tirx.floordiv(results + (costs.sum_rows - 1), costs.sum_rows) * costs.sums + costs.plain
    return inner * outer * sums < by_tiles


def write_sums(
    shape: WinogradShape, costs: WinogradCosts, buffers: Mapping[str, tirx.Buffer], sizes: Sequence[Size]
) -> None:
    """Write a packed product of windows over a padded copy of the data.

    Parameters
    ----------
    shape : WinogradShape
        The convolution.
    costs : WinogradCosts
        Which say how many results are computed together.
    buffers : dict of str to Buffer
        Those of the kernel, `plain` (outer / block, elements of the kernel, inner, block) among them.
    sizes : sequence of int or expression
        Batch, height and width of the data.
    """
    batch, height, width = sizes
    top, left, bottom, right = shape.padding
    padded = [as_expr(height + (top + bottom)), as_expr(width + (left + right))]
    made = [as_expr(size) for size in (batch, *shape.made(height, width))]
    down, across = shape.kernel
    product = PackedGemmShape(
        lead=(None, None, None),
        inner=shape.inner * (down * across),
        outer=shape.outer,
        block=shape.block,
        lanes=shape.lanes,
        has_bias=shape.has_bias,
        has_residual=shape.has_residual,
        low=shape.low,
        high=shape.high,
        activation=shape.activation,
        window=PackedGemmWindow(None, None, shape.inner, shape.kernel, (1, 1), (1, 1)),
        last=shape.block,
    )
    data = buffers["data"]
    if any(shape.padding):
        data = memory(as_expr(batch * padded[0] * padded[1] * shape.inner))
        _write_padded(shape, buffers["data"], data, sizes, padded)
    names = [name for name in ("bias", "residual", "out") if name in buffers]
    own = {"data": data, "weight": buffers["plain"], **{name: buffers[name] for name in names}}
    plan = plan_of_any_size(costs.sum_rows, _UNROLLED)
    write_products(product, plan, own, made, PackedGemmImage(*padded, *made[1:]), has_one_form=True)


def _write_padded(
    shape: WinogradShape, source: tirx.Buffer, padded: tirx.Buffer, sizes: Sequence[Size], size: Sequence[tirx.Expr]
) -> None:
    batch, height, width = sizes
    top, left, _, _ = shape.padding
    lanes, (lines, columns) = shape.lanes, size
    with in_parallel(reduce(mul, [as_expr(batch), lines])) as line, loop(columns) as column:
        image = in_register(tirx.floordiv(line, lines))
        y, x = in_register(line - image * lines - top), in_register(column - left)
        is_inside = tirx.all(y >= 0, y < height, x >= 0, x < width)
        mask = broadcast(in_register(tirx.Select(is_inside, tirx.IntImm("int32", -1), tirx.IntImm("int32", 0))), lanes)
        nearest_y, nearest_x = (
            in_register(tirx.Max(integer(0), tirx.Min(place, as_expr(n) - 1))) for place, n in ((y, height), (x, width))
        )
        begin = in_register((line * columns + column) * shape.inner)
        with loop(shape.inner // lanes) as part:
            channels = ramp(part * lanes, lanes)
            bits = reinterpreted(f"int32x{lanes}", source[image, nearest_y, nearest_x, channels]) & mask
            T.buffer_store(padded, reinterpreted(f"float32x{lanes}", bits), [ramp(begin + part * lanes, lanes)])
