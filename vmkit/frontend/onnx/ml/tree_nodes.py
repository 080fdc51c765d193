"""The nodes of all trees of an ensemble as columns: there may be millions of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ...._dataclasses import dataclass
from ....errors import ModelError
from ....relay.op.trees import FEATURES

__all__ = ["LEAF", "MODES", "Leaves", "Nodes"]

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF")
"""What nodes ask, by their numbers."""
LEAF = MODES.index("LEAF")
_EQUAL, _MEMBER = MODES.index("BRANCH_EQ"), MODES.index("BRANCH_MEMBER")

Column = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Nodes:
    """What the nodes ask and where they lead, by their places; of leaves, all columns but modes mean nothing.

    Attributes
    ----------
    modes : int8
        Places in MODES.
    features, values : int32 or int64, float32 or float64
        What is compared with what.
    missing_is_true : bool
        Whether what is no number makes the condition true.
    true, false : int32 or int64
        The nodes behind.
    members : mapping of int to sequence of float
        By the place of a node that asks for membership, the values of the set.
    """

    modes: Column
    features: Column
    values: Column
    missing_is_true: Column
    true: Column
    false: Column
    members: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.modes)

    @property
    def is_leaf(self) -> Column:
        """Which nodes are leaves."""
        is_leaf: Column = self.modes == LEAF
        return is_leaf

    def check(self) -> None:
        """Raise ModelError for a node that reads no feature, or that leads to none."""
        asks = ~self.is_leaf
        wrong = asks & ((self.features < 0) | (self.features > FEATURES))
        if wrong.any():
            place = int(wrong.argmax())
            raise ModelError(f"node {place} reads feature {self.features[place]}")
        for behind in (self.true, self.false):
            wrong = asks & ((behind < 0) | (behind >= len(self)))
            if wrong.any():
                place = int(wrong.argmax())
                raise ModelError(f"behind node {place} there is node {behind[place]}, which the tree lacks")

    def followed_by(self, more: Nodes) -> Nodes:
        """Return these nodes, and others after them."""
        return Nodes(
            modes=np.concatenate([self.modes, more.modes]),
            features=np.concatenate([self.features, more.features]),
            values=np.concatenate([self.values, more.values]),
            missing_is_true=np.concatenate([self.missing_is_true, more.missing_is_true]),
            true=np.concatenate([self.true, more.true]),
            false=np.concatenate([self.false, more.false]),
            members={**self.members, **{place + len(self): given for place, given in more.members.items()}},
        )

    def without_sets(self) -> Nodes:
        """Return nodes that ask for the values of a set one by one; what leads on when one is not met is a node."""
        places = np.flatnonzero(self.modes == _MEMBER)
        if not len(places):
            return self
        modes, values, false = self.modes.copy(), self.values.copy(), self.false.copy()
        asked: list[float] = []
        sources: list[int] = []
        ways: list[int] = []
        for place in places.tolist():
            # Nothing is in an empty set, except what is no number if that is said to be.
            first, *others = [float(m) for m in self.members[place]] or [math.nan]
            modes[place], values[place] = _EQUAL, first
            for at, value in enumerate(others):
                here = len(self) + len(asked)
                if at == 0:
                    false[place] = here
                asked.append(value)
                sources.append(place)
                ways.append(here + 1 if at + 1 < len(others) else int(self.false[place]))
        added = Nodes(
            np.full(len(asked), _EQUAL, modes.dtype),
            self.features[sources],
            np.array(asked, "float64"),
            self.missing_is_true[sources],
            self.true[sources],
            np.array(ways, "int64"),
        )
        return Nodes(modes, self.features, values, self.missing_is_true, self.true, false).followed_by(added)

    def ways_down(self, roots: Column) -> tuple[Column, Column, int]:
        """Return of each root the longest way down and the mean one, and how many nodes the roots lead to.

        Both ways at a node are as likely. ModelError for a way that does not end.
        """
        levels, reached = self._levels(roots)
        longest, mean = np.zeros(len(self), "int32"), np.zeros(len(self), "float32")
        for level in reversed(levels):
            asking = level[self.modes[level] != LEAF]
            true, false = self.true[asking], self.false[asking]
            longest[asking] = 1 + np.maximum(longest[true], longest[false])
            mean[asking] = 1 + (mean[true] + mean[false]) / 2
        return longest[roots], mean[roots], reached

    def _levels(self, roots: Column) -> tuple[list[Column], int]:
        """Return all nodes that roots lead to, each in a level after those of the nodes that lead to it."""
        leads_on, reached = ~self.is_leaf, np.zeros(len(self), bool)
        before = np.zeros(len(self), np.intp)  # of how many nodes that are in no level yet each is behind
        # numpy sorts what it counts; otherwise it looks numbers up in a table of hashes, which takes 30 times as long.
        front, _ = np.unique(roots, return_counts=True)
        while len(front):
            reached[front] = True
            behind, counts = np.unique(self._behind(front[leads_on[front]]), return_counts=True)
            before[behind] += counts
            front = behind[~reached[behind]]
        levels = [np.flatnonzero(reached & (before == 0)).astype(self.true.dtype)]
        while len(levels[-1]):
            level = levels[-1]
            behind, counts = np.unique(self._behind(level[leads_on[level]]), return_counts=True)
            before[behind] -= counts
            levels.append(behind[before[behind] == 0])
        if before.any():
            raise ModelError(f"node {self._on_a_circle(before > 0)} of a tree is behind itself")
        return levels, int(reached.sum())

    def _behind(self, places: Column) -> Column:
        return np.concatenate([self.true[places], self.false[places]])

    def _on_a_circle(self, left: Column) -> int:
        """Return a node that leads to itself, where each of some nodes is behind one of them."""
        places = np.flatnonzero(left & ~self.is_leaf)
        source = np.zeros(len(self), "int64")
        source[self.true[places]] = source[self.false[places]] = -1
        source[self.true[places]] = places
        source[self.false[places]] = places
        place, seen = int(np.flatnonzero(left)[0]), set[int]()
        while place not in seen:
            seen.add(place)
            place = int(source[place])
        return place


@dataclass(frozen=True)
class Leaves:
    """What is added where: the places of leaves, targets (both integers) and weights (floats), in one order."""

    places: Column
    targets: Column
    weights: Column

    def first_of_each(self) -> Leaves:
        """Return the first of what is added at each node."""
        first = np.sort(np.unique(self.places, return_index=True)[1])
        if len(first) == len(self.places):
            return self
        return Leaves(self.places[first], self.targets[first], self.weights[first])

    def of(self, nodes: Nodes, targets: int) -> Leaves:
        """Return what is added at leaves of `nodes`; ModelError where there is no such target."""
        kept = nodes.is_leaf[self.places]
        own = Leaves(self.places[kept], self.targets[kept], self.weights[kept])
        wrong = (own.targets < 0) | (own.targets >= targets)
        if wrong.any():
            at = int(wrong.argmax())
            raise ModelError(f"node {own.places[at]} adds to target {own.targets[at]}; there are {targets}")
        return own
