"""Who uses what in a graph of expressions, and where all that uses an expression leads to."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ..ir import Op, RelayExpr, children, post_order

__all__ = ["DataflowGraph"]


class DataflowGraph:
    """The uses of each expression of a graph, and its post-dominators.

    An expression dominates another where every way from that to the root of the graph leads through it.

    Parameters
    ----------
    root : Expr or Function
        The graph.

    Attributes
    ----------
    nodes : list of Expr
        Every expression once, each after its parts.
    users : dict of Expr to list of Expr
        The expressions that an expression is a part of.
    """

    def __init__(self, root: RelayExpr) -> None:
        self.nodes: list[RelayExpr] = list(post_order(root))
        self.users: dict[Any, list[Any]] = {}
        for node in self.nodes:
            for part in children(node):
                self.users.setdefault(part, []).append(node)

    @functools.cached_property
    def dominators(self) -> dict[RelayExpr, RelayExpr]:
        """The nearest dominator of each expression that is no operator; the root has none."""
        place = {node: i for i, node in enumerate(self.nodes)}
        nearest: dict[Any, Any] = {}

        def joined(a: RelayExpr, b: RelayExpr) -> RelayExpr:
            # A dominator comes after what it dominates, so the one that comes first is replaced by its own.
            while not a.same_as(b):
                if place[a] < place[b]:
                    a = nearest[a]
                else:
                    b = nearest[b]
            return a

        for node in reversed(self.nodes):
            # In the order of the nodes, so that what all of a chain use is found by going along the chain once.
            users = sorted(self.users.get(node, ()), key=place.__getitem__)
            if users and not isinstance(node, Op):
                nearest[node] = functools.reduce(joined, users)
        return nearest

    @functools.cached_property
    def _dominated(self) -> dict[RelayExpr, list[RelayExpr]]:
        """What each expression is the nearest dominator of, the last first."""
        below: dict[Any, list[Any]] = {}
        for node, dominator in self.dominators.items():
            below.setdefault(dominator, []).append(node)
        return below

    def dominated(self, expr: RelayExpr) -> Iterator[RelayExpr]:
        """Yield all that an expression dominates; what is nearest comes first."""
        waiting = [expr]
        while waiting:
            below = self._dominated.get(waiting.pop(), ())
            yield from below
            waiting += below

    def dominates(self, expr: RelayExpr, other: RelayExpr) -> bool:
        """Say whether every way from another expression leads through this one; it does not dominate itself."""
        above = self.dominators.get(other)
        while above is not None and not above.same_as(expr):
            above = self.dominators.get(above)
        return above is not None
