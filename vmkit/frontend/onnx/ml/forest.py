"""Trees of any of ONNX's operators in the form that the operator for ensembles takes.

Every question becomes ``x <= threshold``, ``-x <= threshold`` or ``x == threshold``, with what lies behind it exchanged
where it was the opposite one, and a set of values becomes one question for each. The two nodes behind a question lie
side by side; a node that several lead to is there for each of them.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np

from ....errors import ModelError
from ....relay.ir import Expr
from ....relay.op import build
from ....relay.op.trees import EQUAL, LANES, MISSING_IS_TRUE
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

    @property
    def only_target(self) -> int | None:
        """The target that all leaves add to; None where they differ."""
        targets = self.leaves.targets
        return int(targets[0]) if len(targets) and (targets == targets[0]).all() else None

    def of_one_target(self) -> Forest:
        """Return the trees with the only target that leaves add to as the one that there is."""
        own = copy.copy(self)
        own.targets, own.leaves = 1, replace(self.leaves, targets=np.zeros_like(self.leaves.targets))
        return own

    def scores(self, rows: Expr, combine: str) -> Expr:
        """Return what the leaves that rows reach add up to, or the least or largest: (rows, targets)."""
        order = self._order()
        # One row waits for as many steps with all lanes, whatever the number of trees is.
        together = min(LANES, 1 << (len(order) - 1).bit_length())
        # Trees that are one leaf, which adds nothing, fill the last group.
        missing = -len(order) % together
        leaves_only = np.zeros(int(missing > 0), "int64")
        roots = np.concatenate([np.full(missing, len(order)), np.arange(len(order))]).astype("int32")
        steps = np.concatenate([np.zeros(missing), self._longest[order]]).astype("int32")
        asking = np.flatnonzero(~self.nodes.is_leaf).astype("int32")
        pairs = np.stack([self.nodes.true[asking], self.nodes.false[asking]], axis=1)
        features = int(self.nodes.features[asking].max(initial=-1)) + 1
        questions, kinds, thresholds = self._questions(asking, pairs, features)
        # The node that stands in each place: roots, a leaf that adds nothing, and the two behind each that asks.
        source = np.concatenate([self.roots[order], leaves_only, pairs.ravel()], dtype=pairs.dtype, casting="same_kind")
        nodes = np.zeros((len(source), 2), "int32")
        nodes[:, 0], levels = kinds[source], thresholds[source]
        del pairs, kinds, thresholds
        first = np.zeros(len(self.nodes), "int32")
        first[asking] = np.arange(len(order) + len(leaves_only), len(source), 2, dtype="int32")
        nodes[:, 1] = first[source]
        del asking, first
        # No number is below what is none, so that a leaf leads to the second of two nodes: to itself.
        is_leaf = self.nodes.is_leaf[source]
        is_leaf[len(order) : len(order) + len(leaves_only)] = True
        nodes[is_leaf, 0], nodes[is_leaf, 1], levels[is_leaf] = 0, np.flatnonzero(is_leaf) - 1, np.nan
        is_whole, *added = self._added(source, len(order) if missing else None, combine)
        tables = [nodes, levels, roots, steps.reshape(-1, together).max(axis=1), *added]
        return build(
            "contrib_tree_ensemble",
            rows,
            *[constant(table) for table in tables],
            targets=self.targets,
            features=features,
            combine=combine,
            questions=questions,
            is_uneven=bool(np.mean(self._mean) < _UNEVEN * np.mean(self._longest)),
            is_whole=is_whole,
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

    def _questions(
        self, asking: np.ndarray[Any, Any], pairs: np.ndarray[Any, Any], features: int
    ) -> tuple[str, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return what questions there are, and kinds and thresholds of all nodes; turn pairs where a question is.

        There are so many features, behind which their opposites follow.
        """
        nodes, dtype = self.nodes, np.dtype(self.dtype)
        modes = nodes.modes[asking]
        with np.errstate(over="ignore", invalid="ignore"):
            values = nodes.values[asking].astype(dtype)
        is_equality = _among(modes, _EQ, _NEQ)
        levels = np.where(_among(modes, _LT, _GTE), _below(values), values)
        # Nothing is more than what is no number, either.
        levels = np.where(_among(modes, _GT, _GTE) & np.isnan(values), dtype.type(np.inf), levels)
        is_turned = _among(modes, _GT, _GTE, _NEQ)
        given = nodes.missing_is_true[asking]
        # What is no number differs from everything.
        missing = np.where(_among(modes, _GT, _GTE), ~given, given) & (modes != _NEQ)
        kinds, thresholds = np.zeros(len(nodes), "int32"), np.zeros(len(nodes), dtype)
        if is_equality.any():
            kind = np.where(is_equality, EQUAL, 0) | np.where(missing, MISSING_IS_TRUE, 0)
        else:
            # What holds for what is no number is the opposite of x > y, which is -x < -y; x <= NaN is false for all.
            opposite = np.where(np.isnan(levels), dtype.type(np.inf), _below(-levels))
            kind, levels, is_turned = (
                np.where(missing, features, 0),
                np.where(missing, opposite, levels),
                is_turned ^ missing,
            )
        kinds[asking], thresholds[asking] = nodes.features[asking] + kind, levels
        pairs[is_turned] = pairs[is_turned, ::-1]
        return "ANY" if is_equality.any() else "TURNED" if missing.any() else "LESS", kinds, thresholds

    def _added(
        self, source: np.ndarray[Any, Any], empty: int | None, combine: str
    ) -> tuple[bool, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return whether each leaf adds to each target, where what each place adds begins and ends, and what that is.

        The place `empty` adds nothing.
        """
        leaves, neutral, joined = self.leaves, *_COMBINE[combine]
        if self.targets == 1:
            single = np.full(len(self.nodes), neutral)
            joined.at(single, leaves.places, leaves.weights)
            weights = single[source].astype(self.dtype)
            if empty is not None:
                weights[empty] = neutral
            return False, np.zeros((1, 2), "int32"), np.zeros(1, "int32"), weights
        order = np.argsort(leaves.places, kind="stable")
        targets, weights = leaves.targets[order], leaves.weights[order]
        counts = np.bincount(leaves.places, minlength=len(self.nodes)).astype("int32")
        ends = np.cumsum(counts, dtype="int32")
        begins = ends - counts
        is_whole = bool(
            len(order) == self.targets * np.count_nonzero(self.nodes.is_leaf)
            and counts[self.nodes.is_leaf].min(initial=self.targets) == self.targets
            and (targets.reshape(-1, self.targets) == np.arange(self.targets)).all()
        )
        of_places = np.stack([begins[source], ends[source]], axis=1)
        if empty is not None:
            of_places[empty] = len(order), len(order) + self.targets * is_whole
        # What a leaf adds that adds nothing; a table has an element at least.
        targets = np.concatenate([targets.astype("int32"), np.arange(self.targets, dtype="int32")])
        weights = np.concatenate([weights.astype(self.dtype), np.full(self.targets, neutral, self.dtype)])
        return is_whole, of_places, targets, weights


def _below(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the largest numbers that are less; nothing is below the least."""
    with np.errstate(over="ignore"):
        below = np.nextafter(values, values.dtype.type(-np.inf))
    return np.where(below == values, values.dtype.type(np.nan), below)


def _among(modes: np.ndarray[Any, Any], *wanted: int) -> np.ndarray[Any, Any]:
    return np.isin(modes, wanted)


_COMBINE: dict[str, tuple[float, np.ufunc]] = {
    "SUM": (0.0, np.add),
    "MIN": (math.inf, np.minimum),
    "MAX": (-math.inf, np.maximum),
}
