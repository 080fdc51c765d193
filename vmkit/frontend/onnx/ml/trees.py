"""Ensembles of decision trees that give numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..dtype import numpy_tensor
from ..operators.elementwise import binary
from ..registry import converter
from .forest import MODES, Forest, Node
from .listed_trees import NodeLists, compared_in, listed_values
from .scores import TRANSFORMS, rows_of, transformed

DOMAIN = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _combined(ctx: Context, forest: Forest, rows: Expr, aggregate: str) -> Expr:
    if aggregate not in _AGGREGATES:
        ctx.fail(f"aggregate_function is {aggregate!r}; it is one of {', '.join(_AGGREGATES)}")
    scores = forest.scores(rows, "SUM" if aggregate == "AVERAGE" else aggregate)
    return binary(ctx, "divide", scores, float(len(forest.roots))) if aggregate == "AVERAGE" else scores


@converter("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    ctx: Context,
    x: Expr,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] = (),
    base_values_as_tensor: onnx.TensorProto | None = None,
    n_targets: int = 1,
    nodes: NodeLists,
    post_transform: str = "NONE",
    target_ids: Sequence[int] = (),
    target_nodeids: Sequence[int] = (),
    target_treeids: Sequence[int] = (),
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: onnx.TensorProto | None = None,
) -> Expr:
    weights = listed_values(ctx, target_weights, target_weights_as_tensor, "target_weights")
    base = listed_values(ctx, base_values, base_values_as_tensor, "base_values")
    dtype = compared_in(ctx, x)
    forest = nodes.forest(ctx, dtype, n_targets, [target_treeids, target_nodeids, target_ids, weights])
    scores = _combined(ctx, forest, rows_of(ctx, x, dtype), aggregate_function)
    if len(base) == n_targets:
        scores = relay.add(scores, ctx.constant(base, dtype))
    elif base:
        ctx.fail(f"base_values has {len(base)} elements for {n_targets} targets")
    return relay.cast(_target_transform(ctx, scores, n_targets, post_transform), "float32")


def _target_transform(ctx: Context, scores: Expr, targets: int, transform: str) -> Expr:
    """Return what a regressor gives: of one target, onnxruntime transforms by PROBIT alone."""
    return scores if targets == 1 and transform in set(TRANSFORMS) - {"PROBIT"} else transformed(ctx, scores, transform)


@converter("TreeEnsemble", since=5, domain=DOMAIN)
def tree_ensemble(
    ctx: Context,
    x: Expr,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: onnx.TensorProto,
    membership_values: onnx.TensorProto | None = None,
    n_targets: int = 1,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: onnx.TensorProto | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: onnx.TensorProto,
    nodes_splits: onnx.TensorProto,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Expr:
    if not 0 <= aggregate_function < len(_AGGREGATES) or not 0 <= post_transform < len(TRANSFORMS):
        ctx.fail(f"aggregate_function is {aggregate_function}, post_transform {post_transform}: there is no such one")
    modes = numpy_tensor(nodes_modes, "nodes_modes").ravel().tolist()
    splits = numpy_tensor(nodes_splits, "nodes_splits").ravel().tolist()
    weights = numpy_tensor(leaf_weights, "leaf_weights").ravel().tolist()
    columns = (
        splits, nodes_featureids, nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs, nodes_falseleafs,
    )  # fmt: skip
    if any(len(column) != len(modes) for column in columns) or len(weights) != len(leaf_targetids):
        ctx.fail(f"its attributes describe {len(modes)} nodes and {len(weights)} leaves, but differ in length")
    if any(not 0 <= mode < len(MODES) for mode in modes):
        ctx.fail(f"nodes_modes holds {max(modes)}; there are 0 to {len(MODES) - 1}")
    missing = list(nodes_missing_value_tracks_true) or [0] * len(modes)
    ways = {
        "true": list(zip(nodes_truenodeids, nodes_trueleafs, strict=True)),
        "false": list(zip(nodes_falsenodeids, nodes_falseleafs, strict=True)),
    }
    if any(not 0 <= at < len(weights) for way in ways.values() for at, is_leaf in way if is_leaf):
        ctx.fail(f"a node leads to a leaf that there is not; there are {len(weights)}")
    if any(not 0 <= root < len(modes) for root in tree_roots):
        ctx.fail(f"tree_roots holds {list(tree_roots)}; there are {len(modes)} nodes")
    places = {way: [at + len(modes) * bool(is_leaf) for at, is_leaf in ways[way]] for way in ways}
    nodes = [
        Node(MODES[m], int(f), float(s), (), bool(missing[k]), places["true"][k], places["false"][k])
        for k, (m, f, s) in enumerate(zip(modes, nodes_featureids, splits, strict=True))
    ]
    _give_members(ctx, nodes, membership_values)
    leaves = [Node("LEAF", weights=[(int(t), float(w))]) for t, w in zip(leaf_targetids, weights, strict=True)]
    dtype = compared_in(ctx, x)
    forest = Forest([*nodes, *leaves], list(tree_roots), n_targets, dtype)
    scores = _combined(ctx, forest, rows_of(ctx, x, dtype), _AGGREGATES[aggregate_function])
    return relay.cast(_target_transform(ctx, scores, n_targets, TRANSFORMS[post_transform]), ctx.dtype(x))


def _give_members(ctx: Context, nodes: list[Node], values: onnx.TensorProto | None) -> None:
    """Give each node that asks for membership its set; they stand in the order of the nodes, each ended by a NaN."""
    asking = [n for n in nodes if n.mode == "BRANCH_MEMBER"]
    given = numpy_tensor(values, "membership_values").ravel().tolist() if values is not None else []
    sets: list[list[float]] = [[]]
    for value in given:
        if math.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    if len(sets) - 1 != len(asking) or sets[-1]:
        ctx.fail(f"membership_values holds {len(sets) - 1} sets that a NaN ends, for {len(asking)} nodes")
    for node, members in zip(asking, sets, strict=False):
        node.members = members
