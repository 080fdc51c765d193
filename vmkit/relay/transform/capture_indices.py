"""Write into every node where it stands in the graph of its function, so that a text of the module shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm.ir import SourceName, Span

from ..ir import Constructor, Function, GlobalVar, Op, RelayExpr, Var, children, post_order, rewrite
from ..ir.spans import with_span
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["CapturePostDfsIndexInSpans"]


@relay_pass(opt_level=0)
def CapturePostDfsIndexInSpans() -> ModuleTransform:
    """Return the pass that gives every node a span ``index:i:d``: its number, and that of its post-dominator.

    Numbers count the nodes of a function in post-order, parameters first. The post-dominator is the nearest node that
    every use of the value leads to; it is -1 for the function itself and for what nothing uses. It helps to see what a
    pass that works on graphs, such as the fusion of operators, is about to do.
    """
    return per_function(_captured)


def _captured(function: Function) -> Function:
    nodes = list(post_order(function))
    index = {node: at for at, node in enumerate(nodes)}
    after = _post_dominators(nodes, index)
    places = {node: Span(SourceName("index"), index[node], index[node], after[node], after[node]) for node in nodes}

    def placed(now: RelayExpr, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Op | GlobalVar | Constructor):
            return now
        if isinstance(node, Var):
            return Var(node.name_hint, node.type_annotation, places[node])
        return with_span(now, places[node])

    return rewrite(function, {}, placed)


def _post_dominators(nodes: list[RelayExpr], index: Mapping[Any, int]) -> dict[Any, int]:
    """Return the number of the post-dominator of each node of a post-order, -1 where there is none."""
    users: dict[Any, list[int]] = {node: [] for node in nodes}
    for node in nodes:
        # A function binds its parameters, which is no use of them.
        for part in [node.body] if isinstance(node, Function) else children(node):
            users[part].append(index[node])
    found: dict[Any, int] = {}
    depth = [0] * len(nodes)
    for at in range(len(nodes) - 1, -1, -1):
        common = -1
        for number, user in enumerate(users[nodes[at]]):
            common = user if number == 0 else _meeting(common, user, nodes, found, depth)
        found[nodes[at]] = common
        depth[at] = 1 if common < 0 else depth[common] + 1
    return found


def _meeting(a: int, b: int, nodes: list[RelayExpr], after: Mapping[Any, int], depth: list[int]) -> int:
    """Return the first node that the ways from two nodes along post-dominators have in common, -1 for none."""
    while a != b and a >= 0 and b >= 0:
        if depth[a] >= depth[b]:
            a = after[nodes[a]]
        else:
            b = after[nodes[b]]
    return a if a == b else -1
