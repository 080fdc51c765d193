"""Trees as the older operators for ensembles have them: rows of nodes, each with its tree and its number there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx

from ...._dataclasses import dataclass
from ....relay.ir import Expr
from ..context import Context
from ..dtype import numpy_tensor
from ..long_lists import LongTexts
from ..registry import AttributeGroup
from .forest import Forest
from .tree_nodes import LEAF, MODES, Leaves, Nodes

__all__ = ["NodeLists", "compared_in", "integers", "listed_values"]

_PART = 1 << 20  # numbers that are looked up at a time

Numbers: TypeAlias = "Sequence[float] | np.ndarray[Any, Any]"


def compared_in(ctx: Context, x: Expr) -> str:
    """Return the data type in which a question compares the features of rows."""
    return "float64" if ctx.dtype(x) == "float64" else "float32"


def listed_values(
    ctx: Context, floats: Sequence[float], tensor: onnx.TensorProto | None, name: str
) -> np.ndarray[Any, Any]:
    """Return what a list or, in newer versions, a tensor gives."""
    if len(floats) and tensor is not None:
        ctx.fail(f"{name} and {name}_as_tensor are given; one of them must go")
    if tensor is not None:
        return numpy_tensor(tensor, f"{name}_as_tensor").ravel()
    return np.asarray(floats, "float32")


@dataclass(frozen=True)
class NodeLists(AttributeGroup):
    """The attributes of the older operators for ensembles: a list for each property of nodes, in one order."""

    nodes_falsenodeids: Sequence[int] = ()
    nodes_featureids: Sequence[int] = ()
    nodes_hitrates: Sequence[float] = ()
    nodes_hitrates_as_tensor: onnx.TensorProto | None = None
    nodes_missing_value_tracks_true: Sequence[int] = ()
    nodes_modes: Sequence[str] = ()
    nodes_nodeids: Sequence[int] = ()
    nodes_treeids: Sequence[int] = ()
    nodes_truenodeids: Sequence[int] = ()
    nodes_values: Sequence[float] = ()
    nodes_values_as_tensor: onnx.TensorProto | None = None

    def forest(self, ctx: Context, dtype: str, targets: int, added: Sequence[Numbers]) -> Forest:
        """Return the trees.

        Parameters
        ----------
        dtype : str
            In which type rows are compared.
        targets : int
            How many results a row has.
        added : sequence
            Trees, nodes, targets and weights of what the leaves add.
        """
        self._check_lengths(ctx, len(self.nodes_treeids))
        places = _Places(integers(self.nodes_treeids), integers(self.nodes_nodeids))
        if places.has_twice:
            ctx.fail("two nodes of a tree have one number")
        nodes = self._nodes(ctx, places)
        leaves = self._leaves(ctx, places, added)
        if targets == 1:
            # As in onnxruntime: skl2onnx writes the number of a leaf once for each class, and means it once.
            leaves = leaves.first_of_each()
        # A tree begins with the first of its nodes that is behind no other one.
        asking = ~nodes.is_leaf
        is_first = np.ones(len(nodes), bool)
        is_first[nodes.true[asking]] = is_first[nodes.false[asking]] = False
        roots = np.flatnonzero(is_first)
        begun = np.bincount(places.tree[roots], minlength=places.trees)
        if (begun != 1).any():
            place = int((begun[places.tree] != 1).argmax())
            ctx.fail(
                f"tree {self.nodes_treeids[place]} has {begun[places.tree[place]]} first nodes, which are behind no "
                "other; it must have one"
            )
        del places, asking, is_first, begun
        forest = Forest(nodes, leaves, roots, targets, dtype)
        if forest.reached < len(nodes):
            ctx.fail(f"{len(nodes) - forest.reached} nodes are behind each other, and no tree leads to them")
        return forest

    def _check_lengths(self, ctx: Context, count: int) -> None:
        tensor = self.nodes_values_as_tensor
        columns = {
            "modes": self.nodes_modes, "featureids": self.nodes_featureids, "nodeids": self.nodes_nodeids,
            "values": self.nodes_values if tensor is None else numpy_tensor(tensor, "nodes_values_as_tensor").ravel(),
            "truenodeids": self.nodes_truenodeids, "falsenodeids": self.nodes_falsenodeids,
        }  # fmt: skip
        missing = self.nodes_missing_value_tracks_true
        for name, column in (columns | ({"missing_value_tracks_true": missing} if len(missing) else {})).items():
            if len(column) != count:
                ctx.fail(f"nodes_{name} has {len(column)} elements, nodes_treeids has {count}")

    def _nodes(self, ctx: Context, places: _Places) -> Nodes:
        """Return the nodes in their order, which lead to each other by their places."""
        modes, trees = self.nodes_modes, places.tree
        known = {name: number for number, name in enumerate(MODES) if name != "BRANCH_MEMBER"}
        if isinstance(modes, LongTexts):
            codes = np.array([known.get(mode, -1) for mode in modes.known], "int8")[modes.codes]
        else:
            codes = np.fromiter((known.get(mode, -1) for mode in modes), "int8", len(modes))
        if (codes < 0).any():
            place = int((codes < 0).argmax())
            ctx.fail(f"node {place} has the mode {modes[place]!r}; there are {', '.join(known)}")
        asking = codes != LEAF
        true, false = np.zeros((2, len(codes)), places.dtype)
        for way, numbers in ((true, self.nodes_truenodeids), (false, self.nodes_falsenodeids)):
            way[asking] = places.of(trees[asking], integers(numbers)[asking])
        lost = np.minimum(true, false) < 0
        if lost.any():
            place = int(lost.argmax())
            number, tree = self.nodes_nodeids[place], self.nodes_treeids[place]
            ctx.fail(f"behind node {number} of tree {tree} there is a node that the tree lacks")
        values = listed_values(ctx, self.nodes_values, self.nodes_values_as_tensor, "nodes_values")
        missing = self.nodes_missing_value_tracks_true
        return Nodes(
            codes,
            integers(self.nodes_featureids),
            values,
            np.asarray(missing, bool) if len(missing) else np.zeros(len(codes), bool),
            true,
            false,
        )

    def _leaves(self, ctx: Context, places: _Places, added: Sequence[Numbers]) -> Leaves:
        if len({len(column) for column in added}) != 1:
            lengths = ", ".join(str(len(column)) for column in added)
            ctx.fail(f"trees, nodes, ids and weights of leaves differ in length: {lengths}")
        trees, numbers, targets, weights = added
        where = places.of(places.codes_of(integers(trees)), integers(numbers))
        if (where < 0).any():
            at = int((where < 0).argmax())
            ctx.fail(f"tree {trees[at]} has no node {numbers[at]}, which weights are given for")
        return Leaves(where, integers(targets), np.asarray(weights))


def integers(column: Numbers) -> np.ndarray[Any, Any]:
    """Return a list as an array of the type that it has, or of int64."""
    array = np.asarray(column)
    return array if array.dtype in (np.int32, np.int64) else array.astype("int64")


class _Places:
    """The places of nodes by their trees and their numbers there.

    There may be millions: numbers are as narrow as they can be, and nothing is sorted that is in order.

    Attributes
    ----------
    trees : int
        How many trees there are.
    tree : array of int
        For each place, the tree, by a number of its own.
    dtype : dtype
        Of a place.
    has_twice : bool
        Whether two nodes of a tree have one number.
    """

    def __init__(self, trees: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> None:
        self._trees, self._numbers = np.unique(trees), np.unique(numbers)
        self.trees, self.dtype = len(self._trees), _narrowest(len(trees))
        self._keys_dtype = _narrowest(len(self._trees) * len(self._numbers))
        self.tree = _found(self._trees, trees)
        keys = self._keys_of(self.tree, numbers)
        self._order = None
        if (keys[1:] < keys[:-1]).any():
            self._order = np.argsort(keys, kind="stable").astype(self.dtype)
            keys = keys[self._order]
        self._keys = keys
        self.has_twice = bool((keys[1:] == keys[:-1]).any())

    def codes_of(self, trees: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the numbers that trees have here; -1 for one that there is not."""
        return _found(self._trees, trees)

    def of(self, trees: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the places of nodes, by the numbers of trees here and their own; -1 where there is none."""
        at = _found(self._keys, self._keys_of(trees, numbers))
        return at if self._order is None else np.where(at < 0, self.dtype.type(-1), self._order[at])

    def _keys_of(self, trees: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        codes = _found(self._numbers, numbers)
        keys = trees.astype(self._keys_dtype)
        keys *= len(self._numbers)
        keys += codes
        keys[(codes < 0) | (trees < 0)] = -1
        return keys


def _narrowest(count: int) -> np.dtype[Any]:
    """Return the type of numbers below a count, and of -1."""
    return np.dtype("int32" if count < 1 << 31 else "int64")


def _found(ordered: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where each of some numbers stands among others in their order; -1 for one that does not."""
    dtype = _narrowest(len(ordered))
    if not len(ordered):
        return np.full(len(wanted), -1, dtype)
    # In parts, since numpy counts in int64.
    found = np.empty(len(wanted), dtype)
    for start in range(0, len(wanted), _PART):
        part = wanted[start : start + _PART]
        at = np.minimum(np.searchsorted(ordered, part), len(ordered) - 1)
        found[start : start + _PART] = np.where(ordered[at] == part, at, -1)
    return found
