"""Recurrent layers whose weights are quantised, and whose inputs and states are where they meet them."""

from __future__ import annotations

from collections.abc import Sequence

from .... import relay
from ....relay.ir import Constant, Expr
from ..context import Context
from ..operators.quantization import dynamic_quantize_linear, factor_products
from ..operators.recurrence import Layer
from ..operators.recurrent import Projection, Recurrent, add_peepholes, joined_bias, part, recurrent
from ..quantization import multiplied
from ..registry import converter

_RECURRENCE = ("quantized", "scale", "zero")


@converter("DynamicQuantizeLSTM", domain="com.microsoft", without=("layout", "output_sequence"))
def dynamic_quantize_lstm(
    ctx: Context,
    x: Expr,
    w: Expr,
    r: Expr,
    b: Expr | None,
    lengths: Expr | None,
    initial_h: Expr | None,
    initial_c: Expr | None,
    p: Expr | None,
    w_scale: Expr,
    w_zero: Expr,
    r_scale: Expr,
    r_zero: Expr,
    *,
    options: Recurrent,
    input_forget: int = 0,
) -> list[Expr]:
    """Weights are (directions, inputs, gates); scales and zero points are one for a direction, or one for each gate."""
    hidden = options.check(ctx, r, axis=1)
    inputs: list[Sequence[Expr]] = []  # quantised once for all directions

    def one_direction(layer: Layer, index: int) -> Projection:
        layer.input_forget = bool(input_forget)
        add_peepholes(layer, p, index)
        recurrence = dict(zip(_RECURRENCE, (part(v, index) for v in (r, r_scale, r_zero)), strict=True))
        # What is no constant is handed to the loop; constants stay where products of integers look for them.
        constants = {name: value for name, value in recurrence.items() if isinstance(value, Constant)}
        layer.weights.update({name: value for name, value in recurrence.items() if name not in constants})
        layer.quantized = constants if len(constants) == len(recurrence) else {}
        layer.product = lambda inner, h: _product(
            ctx, dynamic_quantize_linear(ctx, h), *({**constants, **inner.weights}[n] for n in _RECURRENCE)
        )
        weights, bias = [part(v, index) for v in (w, w_scale, w_zero)], joined_bias(b, index, 4 * hidden)

        def project(rows: Expr) -> Expr:
            if not inputs:
                inputs.append(dynamic_quantize_linear(ctx, rows))
            product = _product(ctx, inputs[0], *weights)
            return product if bias is None else relay.add(product, bias)

        return project

    return recurrent(ctx, "lstm", x, options, one_direction, lengths, [initial_h, initial_c], hidden)


def _product(ctx: Context, rows: Sequence[Expr], weight: Expr, scale: Expr, zero: Expr) -> Expr:
    """Return rows, which were quantised by the range of all their values, times quantised weights."""
    quantum, row_scale, row_zero = rows
    return multiplied(ctx, factor_products(ctx, quantum, weight, row_zero, zero), (row_scale, None), (scale, None))
