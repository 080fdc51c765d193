"""Pools of concatenations as concatenations of pools."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ..relay.ir import Call, RelayExpr, Tuple, is_call
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_used
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["JoinAfterPools"]

_POOLS = ("nn.max_pool2d", "nn.avg_pool2d")


@relay_pass(opt_level=1)
def JoinAfterPools(lanes: int = 16) -> ModuleTransform:
    """Return the pass that joins channels behind a pool, if it alone reads them joined, and not before it.

    A pool leaves less to be joined, often a quarter. What reads the pool may take the tensors as they are, then.

    Parameters
    ----------
    lanes : int
        How many float32 a vector has: each tensor has to have channels for whole ones.
    """
    return per_function(lambda function: rewrite_used(function, partial(_after, lanes)))


def _after(lanes: int, node: RelayExpr, uses: Mapping[RelayExpr, int]) -> RelayExpr:
    if not (is_call(node, *_POOLS) and _are_vectors(node, lanes) and uses[node.args[0]] == 1):
        return node
    joined = node.args[0]
    parts = [Call(node.op, [part], node.attrs) for part in joined.args[0].fields]
    return build("concatenate", Tuple(parts), axis=joined.attrs.axis)


def _are_vectors(pool: Call, lanes: int) -> bool:
    """Say whether a pool steps over images that are joined along their channels, which come last in memory."""
    data, attrs = pool.args[0], pool.attrs
    if not (is_call(data, "concatenate") and isinstance(data.args[0], Tuple) and attrs.layout == "NHWC"):
        return False
    rank = len(data.checked_type.shape)
    channels = [part.checked_type.shape[-1] for part in data.args[0].fields]
    is_last = int(data.attrs.axis) in (-1, rank - 1) and attrs.out_layout in ("", attrs.layout)
    is_less = any(int(n) > 1 for n in attrs.strides)
    return is_last and is_less and all(isinstance(n, int) and n > 0 and n % lanes == 0 for n in channels)
