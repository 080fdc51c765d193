"""What a program goes through before it is cut for oneDNN: scales and paddings go where it takes them."""

from __future__ import annotations

from collections.abc import Sequence

from ...relay import transform
from ...relay.ir import Call, Function, Op, RelayExpr, rewrite
from ...relay.transform.known_type import type_of, use_counts
from ...relay.transform.registry import ModuleTransform, per_function
from ...relay.transform.simplify_inference import simplify_inference
from .operators import CONVOLUTIONS, dims_of

__all__ = ["preparation"]


def preparation() -> Sequence[ModuleTransform]:
    """Return the passes."""
    return (
        transform.FoldExplicitPadding(),
        lambda mod: simplify_inference(transform.InferType()(mod), _is_after_convolution),
        transform.FoldConstant(),
        transform.FoldScaleAxis(run_time_weights=False),
        transform.InferType(),
        per_function(_without_flat_rows),
        transform.InferType(),
    )


def _is_call(expr: RelayExpr, *names: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def _is_after_convolution(call: Call) -> bool:
    return _is_call(call.args[0], *CONVOLUTIONS)


def _without_flat_rows(function: Function) -> Function:
    """Return a function in which products are of stacks of rows, where the stack was made flat for each and undone."""
    uses = use_counts(function)

    def rule(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not (_is_call(original, "reshape") and _is_call(original.args[0], "nn.dense")):
            return node
        product = original.args[0]
        if uses[product] != 1 or not _is_call(product.args[0], "reshape"):
            return node
        stack, result = dims_of(product.args[0].args[0]), dims_of(original)
        if "?" in stack or stack[:-1] != result[:-1] or dims_of(product)[-1] != result[-1]:
            return node
        made = node.args[0]
        return Call(made.op, [made.args[0].args[0], made.args[1]], made.attrs, list(made.type_args), made.span)

    type_of(function.body)
    return rewrite(function, {}, rule)
