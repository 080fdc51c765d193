"""Control flow: a graph in an attribute sees the values around its node."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from ....relay.ir import Expr
from ..context import Context
from ..known import sizes
from ..outcome import Condition, attempt, join
from ..registry import converter
from ..typing import typed
from .layout import to_shape


@converter("If")
def branch(ctx: Context, condition: Expr, *, then_branch: onnx.GraphProto, else_branch: onnx.GraphProto) -> Any:
    """A condition that is known takes its branch; the other one is not even imported."""
    known = ctx.scalar(condition)
    if known is not None:
        return ctx.subgraph(then_branch if known else else_branch)
    over_sizes = ctx.dims(condition)
    if over_sizes is not None:
        condition = sizes(np.array(over_sizes[0], dtype=object), "bool")
    elif ctx.rank(condition) != 0:
        condition = typed(to_shape(condition, []))
    decided = Condition.of(condition, repr(ctx.node.input[0]))
    return join(decided, attempt(lambda: ctx.subgraph(then_branch)), attempt(lambda: ctx.subgraph(else_branch)))
