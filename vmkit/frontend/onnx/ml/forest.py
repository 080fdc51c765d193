"""Trees of any of ONNX's operators in the form that the operator for ensembles takes.

A :class:`Node` asks one question. Every question becomes ``x <= threshold`` or ``x == threshold``, with what lies
behind it exchanged where it was the opposite one, and a set of values becomes one question for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....errors import ModelError
from ....relay.ir import Expr
from ....relay.op import build
from ....relay.op.trees import EQUAL, FEATURES, LANES, MISSING_IS_TRUE
from ..known import constant

__all__ = ["MODES", "Forest", "Node"]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
# Trees in which the mean way down is shorter than this part of the longest are walked until nothing moves.
_UNEVEN = 0.6
# How much longer the way through trees in their own order may be.
_WORTH_SORTING = 1.25


@dataclass(slots=True)
class Node:
    """A node of a tree.

    Attributes
    ----------
    mode : str
        One of MODES, or LEAF.
    feature, value : int, float
        What is compared with what.
    members : sequence of float
        The values of a set.
    missing_is_true : bool
        Whether what is no number makes the condition true.
    true, false : int
        The nodes behind it, by their places.
    weights : list of (int, float)
        What a leaf adds to which targets.
    """

    mode: str
    feature: int = 0
    value: float = 0.0
    members: Sequence[float] = ()
    missing_is_true: bool = False
    true: int = -1
    false: int = -1
    weights: Sequence[tuple[int, float]] = ()


class Forest:
    """Some trees, checked.

    Parameters
    ----------
    nodes : sequence of Node
        All nodes.
    roots : sequence of int
        The first node of each tree.
    targets : int
        How many results a row has.
    dtype : str
        In which type rows are compared: float32 or float64.

    Attributes
    ----------
    reached : int
        How many nodes a row may come to.
    """

    def __init__(self, nodes: Sequence[Node], roots: Sequence[int], targets: int, dtype: str) -> None:
        self.targets, self.dtype = targets, dtype
        self.nodes = list(nodes)
        for place, node in enumerate(nodes):
            self._check(place, node)
        self.roots = list(roots)
        if not roots:
            raise ModelError("the ensemble has no trees")
        self._expand_sets()
        self.depths = self._depths()

    def _check(self, place: int, node: Node) -> None:
        if node.mode == "LEAF":
            for target, _ in node.weights:
                if not 0 <= target < self.targets:
                    raise ModelError(f"node {place} adds to target {target}; there are {self.targets}")
            return
        if node.mode not in MODES:
            raise ModelError(f"node {place} has the mode {node.mode!r}; there are {', '.join(MODES)} and LEAF")
        if not 0 <= node.feature <= FEATURES:
            raise ModelError(f"node {place} reads feature {node.feature}")
        for behind in (node.true, node.false):
            if not 0 <= behind < len(self.nodes):
                raise ModelError(f"behind node {place} there is node {behind}, which the tree lacks")

    def _expand_sets(self) -> None:
        """Ask for the values of a set one by one: what leads on when one is not met is a node of its own."""
        for node in list(self.nodes):
            if node.mode != "BRANCH_MEMBER":
                continue
            members = [float(m) for m in node.members]
            if not members:
                # Nothing is in the set, except what is no number if that is said to be.
                members = [math.nan]
            node.mode, node.value = "BRANCH_EQ", members[0]
            last = node
            for value in members[1:]:
                self.nodes.append(
                    Node("BRANCH_EQ", node.feature, value, (), node.missing_is_true, node.true, last.false)
                )
                last.false = len(self.nodes) - 1
                last = self.nodes[-1]

    def _depths(self) -> list[tuple[int, float]]:
        """Return for each tree the longest way down, and the mean one; ModelError for one that does not end."""
        known: dict[int, tuple[int, float]] = {}
        open_nodes: set[int] = set()
        waiting = list(self.roots)
        while waiting:
            place = waiting[-1]
            node = self.nodes[place]
            behind = () if node.mode == "LEAF" else (node.true, node.false)
            missing = [b for b in behind if b not in known]
            if place in known or not missing:
                known.setdefault(place, _depth([known[b] for b in behind]))
                open_nodes.discard(waiting.pop())
            elif place in open_nodes:
                raise ModelError(f"node {place} of a tree is behind itself")
            else:
                open_nodes.add(place)
                waiting += missing
        self.reached = len(known)
        return [known[root] for root in self.roots]

    def scores(self, rows: Expr, combine: str) -> Expr:
        """Return what the leaves that rows reach add up to, or the least or largest: (rows, targets)."""
        order = self._order()
        roots = [self.roots[k] for k in order]
        steps = [self.depths[k][0] for k in order]
        nodes = list(self.nodes)
        if len(roots) % LANES:
            # Trees that are one leaf, which adds nothing, fill the last group.
            missing = -len(roots) % LANES
            nodes.append(Node("LEAF", weights=[(0, _NEUTRAL[combine])] if self.targets == 1 else []))
            roots = [len(nodes) - 1] * missing + roots
            steps = [0] * missing + steps
        kinds, thresholds, is_plain = self._questions(nodes)
        leaves, ids, weights = self._leaves(nodes, combine)
        longest = np.array(steps, "int32").reshape(-1, LANES).max(axis=1)
        mean = np.mean([m for _, m in self.depths])
        tables: list[Any] = [kinds, thresholds, np.array(roots, "int32"), longest, leaves, ids, weights]
        features = max((n.feature + 1 for n in nodes if n.mode != "LEAF"), default=0)
        return build(
            "contrib_tree_ensemble",
            rows,
            *[constant(t) for t in tables],
            targets=self.targets,
            features=features,
            combine=combine,
            is_plain=is_plain,
            is_uneven=bool(mean < _UNEVEN * np.mean([d for d, _ in self.depths])),
        )

    def _order(self) -> list[int]:
        """Return the order of the trees: as given, which sums up as onnxruntime does, unless that takes much longer.

        Trees side by side wait for the deepest of them, so that trees of different depths are sorted by it.
        """
        depths = [longest for longest, _ in self.depths]
        given = list(range(len(depths)))
        by_depth = sorted(given, key=lambda k: depths[k])
        steps = {
            name: sum(1 + max(depths[k] for k in order[at : at + LANES]) for at in range(0, len(order), LANES))
            for name, order in (("given", given), ("by depth", by_depth))
        }
        return given if steps["given"] <= _WORTH_SORTING * steps["by depth"] else by_depth

    def _questions(self, nodes: Sequence[Node]) -> tuple[np.ndarray, np.ndarray, bool]:
        kinds = np.zeros((len(nodes), 3), "int32")
        thresholds = np.zeros(len(nodes), self.dtype)
        is_plain = True
        for place, node in enumerate(nodes):
            if node.mode == "LEAF":
                kinds[place] = [0, place, place]
                continue
            kind, threshold, ways = self._question(node)
            is_plain = is_plain and kind <= FEATURES
            kinds[place], thresholds[place] = [kind, *ways], threshold
        return kinds, thresholds, is_plain

    def _question(self, node: Node) -> tuple[int, Any, tuple[int, int]]:
        """Return kind, threshold and what is behind a node whose question is <= or ==."""
        threshold = np.dtype(self.dtype).type(node.value)
        ways, missing = (node.true, node.false), node.missing_is_true
        if node.mode in ("BRANCH_LT", "BRANCH_GTE"):
            # Nothing lies between a number and the one below it; nothing is below the least.
            lower = np.nextafter(threshold, -np.inf, dtype=self.dtype)
            threshold = lower if lower != threshold else np.dtype(self.dtype).type(np.nan)
        if node.mode in ("BRANCH_GT", "BRANCH_GTE"):
            ways, missing = (node.false, node.true), not missing
        elif node.mode == "BRANCH_NEQ":
            # What is no number differs from everything.
            ways, missing = (node.false, node.true), False
        kind = node.feature
        kind |= EQUAL if node.mode in ("BRANCH_EQ", "BRANCH_NEQ") else 0
        kind |= MISSING_IS_TRUE if missing else 0
        return kind, threshold, ways

    def _leaves(self, nodes: Sequence[Node], combine: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        leaves = np.zeros((len(nodes), 2), "int32")
        if self.targets == 1:
            neutral = _NEUTRAL[combine]
            single = [_ONE[combine]([w for _, w in n.weights]) if n.weights else neutral for n in nodes]
            return leaves[:1], np.zeros(1, "int32"), np.array(single, self.dtype)
        ids: list[int] = []
        weights: list[float] = []
        for place, node in enumerate(nodes):
            leaves[place] = [len(ids), len(ids) + len(node.weights)]
            ids += [t for t, _ in node.weights]
            weights += [w for _, w in node.weights]
        return leaves, np.array(ids or [0], "int32"), np.array(weights or [0], self.dtype)


def _depth(behind: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """Return the longest and the mean way down from a node, both ways at each being as likely."""
    if not behind:
        return _AT_LEAF
    return 1 + max(longest for longest, _ in behind), 1 + sum(mean for _, mean in behind) / len(behind)


# One for all leaves, of which there may be millions.
_AT_LEAF = (0, 0.0)
_NEUTRAL = {"SUM": 0.0, "MIN": math.inf, "MAX": -math.inf}
_ONE: dict[str, Any] = {"SUM": sum, "MIN": min, "MAX": max}
