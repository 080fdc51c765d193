"""Dynamic time warping, by which exporters of Whisper give the times of words."""

from __future__ import annotations

from .... import relay
from ....relay.ir import Expr, TupleGetItem, dims
from ....relay.op import build
from ..context import Context
from ..operators.conversion import casted
from ..registry import converter
from ..run_time_axes import size_along
from ..typing import typed


@converter("DynamicTimeWarping", domain="com.microsoft")
def dynamic_time_warping(ctx: Context, costs: Expr) -> Expr:
    """Rows and columns of the cheapest path, int32 (2, steps), of a matrix or of a batch of one."""
    if ctx.rank(costs) == 3 and dims.equal(ctx.shape(costs)[0], 1) is not False:
        costs = relay.squeeze(costs, [0])
    if ctx.rank(costs) != 2:
        ctx.fail(f"the costs are a matrix, or a batch of one, not {ctx.type(costs)}")
    both = typed(build("contrib_warping_path", casted(ctx, costs, "float32")))
    path, length = (typed(TupleGetItem(both, k)) for k in range(2))
    end = size_along(ctx, path, 1)
    places = relay.arange(relay.subtract(end, length), end, ctx.constant(1, "int64"), "int64")
    return relay.take(path, places, axis=1)
