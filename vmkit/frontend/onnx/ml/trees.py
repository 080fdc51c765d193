"""Ensembles of decision trees that give numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from .... import relay
from ....relay.ir import Expr
from ..context import Context
from ..dtype import numpy_tensor
from ..operators.elementwise import binary
from ..registry import converter
from .forest import Forest
from .listed_trees import NodeLists, compared_in, listed_values
from .scores import TRANSFORMS, rows_of, transformed
from .tree_nodes import LEAF, MODES, Leaves, Nodes

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
    base = listed_values(ctx, base_values, base_values_as_tensor, "base_values").tolist()
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
    modes = numpy_tensor(nodes_modes, "nodes_modes").ravel()
    splits = numpy_tensor(nodes_splits, "nodes_splits").ravel()
    weights = numpy_tensor(leaf_weights, "leaf_weights").ravel()
    columns = [nodes_featureids, nodes_truenodeids, nodes_falsenodeids, nodes_trueleafs, nodes_falseleafs]
    if any(len(column) != len(modes) for column in (splits, *columns)) or len(weights) != len(leaf_targetids):
        ctx.fail(f"its attributes describe {len(modes)} nodes and {len(weights)} leaves, but differ in length")
    if ((modes < 0) | (modes >= LEAF)).any():
        ctx.fail(f"nodes_modes holds {modes.max()}; there are 0 to {LEAF - 1}")
    features, true, false, is_true_leaf, is_false_leaf = (np.array(column, "int64") for column in columns)
    roots = np.asarray(tree_roots, "int64")
    for at, is_leaf in ((true, is_true_leaf != 0), (false, is_false_leaf != 0)):
        if (is_leaf & ((at < 0) | (at >= len(weights)))).any():
            ctx.fail(f"a node leads to a leaf that there is not; there are {len(weights)}")
        at += len(modes) * is_leaf
    if ((roots < 0) | (roots >= len(modes))).any():
        ctx.fail(f"tree_roots holds {roots.tolist()}; there are {len(modes)} nodes")
    missing = np.asarray(nodes_missing_value_tracks_true or [0] * len(modes)) != 0
    members = _members(ctx, modes, membership_values)
    nodes = Nodes(modes.astype("int8"), features, splits.astype("float64"), missing, true, false, members)
    targets = np.asarray(leaf_targetids, "int64")
    leaves = Leaves(np.arange(len(weights)) + len(modes), targets, weights.astype("float64"))
    dtype = compared_in(ctx, x)
    forest = Forest(nodes.followed_by(_leaf_nodes(len(weights))), leaves, roots, n_targets, dtype)
    scores = _combined(ctx, forest, rows_of(ctx, x, dtype), _AGGREGATES[aggregate_function])
    return relay.cast(_target_transform(ctx, scores, n_targets, TRANSFORMS[post_transform]), ctx.dtype(x))


def _leaf_nodes(count: int) -> Nodes:
    numbers, zeros = np.zeros(count, "int64"), np.zeros(count)
    return Nodes(np.full(count, LEAF, "int8"), numbers, zeros, np.zeros(count, bool), numbers, numbers)


def _members(ctx: Context, modes: np.ndarray[Any, Any], values: onnx.TensorProto | None) -> dict[int, list[float]]:
    """Return the set of each node that asks for membership; a NaN ends each, and they stand in the nodes' order."""
    asking = np.flatnonzero(modes == MODES.index("BRANCH_MEMBER")).tolist()
    given = numpy_tensor(values, "membership_values").ravel().tolist() if values is not None else []
    sets: list[list[float]] = [[]]
    for value in given:
        if math.isnan(value):
            sets.append([])
        else:
            sets[-1].append(value)
    if len(sets) - 1 != len(asking) or sets[-1]:
        ctx.fail(f"membership_values holds {len(sets) - 1} sets that a NaN ends, for {len(asking)} nodes")
    return dict(zip(asking, sets, strict=False))
