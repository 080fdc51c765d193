"""Pools of large windows as pools along one axis after another."""

from __future__ import annotations

from math import prod

from ..relay.ir import Call, Op, RelayExpr
from ..relay.op.nn.pool_attrs import AvgPoolAttrs
from ..relay.op.nn.pooling import Pool
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["SeparatePools"]

_LESS = 2  # by which factor fewer elements have to be read: what is between the pools is written and read, too
_OF_SEVERAL_AXES = ("nn.max_pool2d", "nn.max_pool3d", "nn.avg_pool2d", "nn.avg_pool3d")


@relay_pass(opt_level=1)
def SeparatePools() -> ModuleTransform:
    """Return the pass that makes pools along one axis each of a pool, where that reads few enough elements.

    A window of 5 by 5 has 25 elements, of which its neighbours have most in common; a column of maxima of rows has 5,
    and each of these 5. The mean of means is that of all, for how many elements of a row count is the same in every
    row of a window.
    """
    return per_function(lambda function: rewrite_typed(function, _separated))


def _separated(node: RelayExpr) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _OF_SEVERAL_AXES):
        return node
    source = node.args[0].checked_type
    if "avg" in node.op.name and source.dtype not in ("float32", "float64"):
        return node  # a mean of means would be rounded twice
    pool = Pool.of(node.attrs, list(source.shape))
    # The last axis goes first, so that the others are as long as in the data meanwhile.
    read = sum(size * prod(pool.strides[:axis]) for axis, size in enumerate(pool.kernel))
    if sum(size > 1 for size in pool.kernel) < 2 or read * _LESS >= prod(pool.kernel):
        return node
    made = node.args[0]
    for axis in reversed(range(len(pool.kernel))):
        made = _along(node, pool, made, axis)
    return made


def _along(node: Call, pool: Pool, data: RelayExpr, axis: int) -> Call:
    """Return a pool that has the windows of another along one axis, and single elements along the others."""
    rank = len(pool.kernel)
    fields = {name: getattr(node.attrs, name) for name in ("layout", "out_layout", "ceil_mode")}
    if isinstance(node.attrs, AvgPoolAttrs):
        fields["count_include_pad"] = node.attrs.count_include_pad
    for name, values in (("pool_size", pool.kernel), ("strides", pool.strides), ("dilation", pool.dilation)):
        fields[name] = [value if at == axis else 1 for at, value in enumerate(values)]
    fields["padding"] = [value if at % rank == axis else 0 for at, value in enumerate(pool.padding)]
    return build(node.op.name, data, **fields)
