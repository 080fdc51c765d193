"""Trees as the older operators for ensembles have them: rows of nodes, each with its tree and its number there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from ....relay.ir import Expr
from ..context import Context
from ..dtype import numpy_tensor
from ..registry import AttributeGroup
from .forest import Forest, Node

__all__ = ["NodeLists", "compared_in", "listed_values"]


def compared_in(ctx: Context, x: Expr) -> str:
    """Return the data type in which a question compares the features of rows."""
    return "float64" if ctx.dtype(x) == "float64" else "float32"


def listed_values(ctx: Context, floats: Sequence[float], tensor: onnx.TensorProto | None, name: str) -> list[float]:
    """Return what a list or, in newer versions, a tensor gives."""
    if floats and tensor is not None:
        ctx.fail(f"{name} and {name}_as_tensor are given; one of them must go")
    return numpy_tensor(tensor, f"{name}_as_tensor").ravel().tolist() if tensor is not None else list(floats)


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

    def forest(self, ctx: Context, dtype: str, targets: int, added: Sequence[Sequence[float]]) -> Forest:
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
        trees, numbers = self.nodes_treeids, self.nodes_nodeids
        places = {key: place for place, key in enumerate(zip(trees, numbers, strict=False))}
        made = self._nodes(ctx, places)
        if len({len(column) for column in added}) != 1:
            lengths = ", ".join(str(len(column)) for column in added)
            ctx.fail(f"trees, nodes, ids and weights of leaves differ in length: {lengths}")
        for tree, number, target, weight in zip(*added, strict=True):
            if (tree, number) not in places:
                ctx.fail(f"tree {tree} has no node {number}, which weights are given for")
            node = made[places[tree, number]]
            node.weights = (*node.weights, (int(target), float(weight)))
        # A tree begins with the first of its nodes that is behind no other one.
        behind_one = {b for n in made if n.mode != "LEAF" for b in (n.true, n.false)}
        first = [place for place in range(len(trees)) if place not in behind_one]
        begun = [trees[place] for place in first]
        for tree in dict.fromkeys(trees):
            if begun.count(tree) != 1:
                ctx.fail(
                    f"tree {tree} has {begun.count(tree)} first nodes, which are behind no other; it must have one"
                )
        forest = Forest(made, first, targets, dtype)
        if forest.reached < len(made):
            ctx.fail(f"{len(made) - forest.reached} nodes are behind each other, and no tree leads to them")
        return forest

    def _nodes(self, ctx: Context, places: Mapping[tuple[int, int], int]) -> list[Node]:
        """Return the nodes in their order, which lead to each other by their places."""
        trees, numbers, modes = self.nodes_treeids, self.nodes_nodeids, self.nodes_modes
        values = listed_values(ctx, self.nodes_values, self.nodes_values_as_tensor, "nodes_values")
        columns = {
            "modes": modes, "featureids": self.nodes_featureids, "values": values, "nodeids": numbers,
            "truenodeids": self.nodes_truenodeids, "falsenodeids": self.nodes_falsenodeids,
        }  # fmt: skip
        for name, column in columns.items():
            if len(column) != len(trees):
                ctx.fail(f"nodes_{name} has {len(column)} elements, nodes_treeids has {len(trees)}")
        missing = self.nodes_missing_value_tracks_true or [0] * len(trees)
        if len(places) != len(trees):
            ctx.fail("two nodes of a tree have one number")
        made = []
        for place, tree in enumerate(trees):
            if modes[place] == "LEAF":
                made.append(Node("LEAF"))
                continue
            ways = self.nodes_truenodeids, self.nodes_falsenodeids
            true, false = (places.get((tree, way[place]), -1) for way in ways)
            if min(true, false) < 0:
                ctx.fail(f"behind node {numbers[place]} of tree {tree} there is a node that the tree lacks")
            feature, value = int(self.nodes_featureids[place]), float(values[place])
            made.append(Node(modes[place], feature, value, (), bool(missing[place]), true, false))
        return made
