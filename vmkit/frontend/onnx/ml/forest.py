"""Trees of any of ONNX's operators in the form that the operator for ensembles takes.

Every question becomes ``x <= threshold`` or ``x == threshold``, with what lies behind it exchanged where it was the
opposite one, and a set of values becomes one question for each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....errors import ModelError
from ....relay.ir import Expr
from ....relay.op import build
from ....relay.op.trees import EQUAL, FEATURES, LANES, MISSING_IS_TRUE
from ..known import constant
from .tree_nodes import MODES, Leaves, Nodes

__all__ = ["Forest"]

# Trees in which the mean way down is shorter than this part of the longest are walked until nothing moves.
_UNEVEN = 0.6
# How much longer the way through trees in their own order may be.
_WORTH_SORTING = 1.25
_LT, _GTE, _GT, _EQ, _NEQ = (MODES.index(f"BRANCH_{name}") for name in ("LT", "GTE", "GT", "EQ", "NEQ"))


class Forest:
    """Some trees, checked.

    Parameters
    ----------
    nodes : Nodes
        All nodes.
    leaves : Leaves
        What leaves add.
    roots : array of int
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

    def __init__(self, nodes: Nodes, leaves: Leaves, roots: np.ndarray[Any, Any], targets: int, dtype: str) -> None:
        nodes.check()
        self.targets, self.dtype, self.roots = targets, dtype, roots
        self.leaves = leaves.of(nodes, targets)
        if not len(roots):
            raise ModelError("the ensemble has no trees")
        self.nodes = nodes.without_sets()
        self._longest, self._mean, self.reached = self.nodes.ways_down(roots)

    def scores(self, rows: Expr, combine: str) -> Expr:
        """Return what the leaves that rows reach add up to, or the least or largest: (rows, targets)."""
        order = self._order()
        # One row waits for as many steps with all lanes, whatever the number of trees is.
        together = min(LANES, 1 << (len(order) - 1).bit_length())
        # Trees that are one leaf, which adds nothing, fill the last group.
        missing = -len(order) % together
        roots = np.concatenate([np.full(missing, len(self.nodes)), self.roots[order]]).astype("int32")
        steps = np.concatenate([np.zeros(missing), self._longest[order]]).astype("int32")
        count = len(self.nodes) + bool(missing)
        kinds, thresholds = self._questions(count)
        tables = [kinds, thresholds, roots, steps.reshape(-1, together).max(axis=1), *self._added(count, combine)]
        asking = ~self.nodes.is_leaf
        return build(
            "contrib_tree_ensemble",
            rows,
            *[constant(table) for table in tables],
            targets=self.targets,
            features=int(self.nodes.features[asking].max(initial=-1)) + 1,
            combine=combine,
            is_plain=bool((kinds[:, 0] <= FEATURES).all()),
            is_uneven=bool(np.mean(self._mean) < _UNEVEN * np.mean(self._longest)),
            at_once=LANES // together,
        )

    def _order(self) -> np.ndarray[Any, Any]:
        """Return the order of the trees: as given, which sums up as onnxruntime does, unless that takes much longer.

        Trees side by side wait for the deepest of them, so that trees of different depths are sorted by it.
        """
        by_depth = np.argsort(self._longest, kind="stable")
        starts = np.arange(0, len(by_depth), LANES)
        given, best = ((1 + np.maximum.reduceat(d, starts)).sum() for d in (self._longest, self._longest[by_depth]))
        return np.arange(len(by_depth)) if given <= _WORTH_SORTING * best else by_depth

    def _questions(self, count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return kinds and what is behind, and thresholds, of so many nodes whose questions are <= or ==."""
        nodes, dtype = self.nodes, np.dtype(self.dtype)
        is_leaf, modes = nodes.is_leaf, nodes.modes
        with np.errstate(over="ignore", invalid="ignore"):
            values = nodes.values.astype(dtype)
        # Nothing lies between a number and the one below it; nothing is below the least.
        below = np.nextafter(values, dtype.type(-np.inf))
        below = np.where(below == values, dtype.type(np.nan), below)
        thresholds = np.zeros(count, dtype)
        thresholds[: len(nodes)] = np.where(is_leaf, 0, np.where(_among(modes, _LT, _GTE), below, values))
        is_turned = _among(modes, _GT, _GTE, _NEQ)
        # What is no number differs from everything.
        missing = np.where(_among(modes, _GT, _GTE), ~nodes.missing_is_true, nodes.missing_is_true) & (modes != _NEQ)
        kind = nodes.features | np.where(_among(modes, _EQ, _NEQ), EQUAL, 0) | np.where(missing, MISSING_IS_TRUE, 0)
        kinds = np.zeros((count, 3), "int32")
        kinds[:, 1] = kinds[:, 2] = np.arange(count)  # a leaf leads to itself
        asking = np.flatnonzero(~is_leaf)
        kinds[asking, 0] = kind[asking]
        kinds[asking, 1] = np.where(is_turned, nodes.false, nodes.true)[asking]
        kinds[asking, 2] = np.where(is_turned, nodes.true, nodes.false)[asking]
        return kinds, thresholds

    def _added(self, count: int, combine: str) -> tuple[np.ndarray[Any, Any], ...]:
        """Return where what each of so many nodes adds begins and ends, the targets and the weights."""
        leaves, of_nodes = self.leaves, np.zeros((count, 2), "int32")
        if self.targets == 1:
            neutral, joined = _COMBINE[combine]
            single = np.full(count, neutral)
            joined.at(single, leaves.places, leaves.weights)
            return of_nodes[:1], np.zeros(1, "int32"), single.astype(self.dtype)
        order = np.argsort(leaves.places, kind="stable")
        ends = np.cumsum(np.bincount(leaves.places, minlength=count))
        of_nodes[:, 1], of_nodes[1:, 0] = ends, ends[:-1]
        if not len(order):
            return of_nodes, np.zeros(1, "int32"), np.zeros(1, self.dtype)
        return of_nodes, leaves.targets[order].astype("int32"), leaves.weights[order].astype(self.dtype)


def _among(modes: np.ndarray[Any, Any], *wanted: int) -> np.ndarray[Any, Any]:
    return np.isin(modes, wanted)


_COMBINE: dict[str, tuple[float, np.ufunc]] = {
    "SUM": (0.0, np.add),
    "MIN": (math.inf, np.minimum),
    "MAX": (-math.inf, np.maximum),
}
