"""The least and the largest element of a tensor by one kernel, which reads it once."""

from __future__ import annotations

from ..relay.ir import Call, Expr, Function, Op, RelayExpr, TupleGetItem, post_order, rewrite
from ..relay.op.reduce import reduced_axes
from ..relay.op.registry import build
from ..relay.transform.known_type import type_of, with_type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["JoinExtremes"]

_FIELDS = {"min": 0, "max": 1}


@relay_pass(opt_level=1)
def JoinExtremes(lanes: int = 8) -> ModuleTransform:
    """Return the pass that finds both extremes of all elements of a tensor of float32 together.

    The scale of what is quantised by its own range depends on both. A tensor that is larger than a cache comes from
    memory once so, and a small one has a kernel less.

    Parameters
    ----------
    lanes : int
        How many float32 a vector has.
    """
    return per_function(lambda function: _joined(function, lanes))


def _joined(function: Function, lanes: int) -> Function:
    sources: dict[str, set[RelayExpr]] = {name: set() for name in _FIELDS}
    for node in post_order(function):
        if _is_extreme(node):
            sources[node.op.name].add(node.args[0])
    both = sources["min"] & sources["max"]
    if not both:
        return function
    found: dict[RelayExpr, Expr] = {}

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if not (_is_extreme(original) and original.args[0] in both):
            return with_type_of(node, original)
        data = node.args[0]
        if data not in found:
            found[data] = build("contrib_extremes", data, lanes=lanes)
        extreme = TupleGetItem(found[data], _FIELDS[original.op.name])
        rank = len(type_of(node).shape)
        made = build("reshape", extreme, newshape=[1] * rank) if rank else extreme
        type_of(made)
        return made

    result: Function = rewrite(function, {}, replace)
    return result


def _is_extreme(node: RelayExpr) -> bool:
    """Say whether a node is an extreme of all elements of a tensor of float32."""
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _FIELDS):
        return False
    source = node.args[0].checked_type
    rank = len(source.shape)
    return source.dtype == "float32" and rank > 0 and len(reduced_axes(node.attrs, rank)) == rank
