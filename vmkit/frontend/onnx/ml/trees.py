"""Ensembles of decision trees, in their three forms."""

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
from ..known import constant
from ..operators.elementwise import binary
from ..registry import converter
from .forest import MODES, Forest, Node
from .scores import TRANSFORMS, class_labels, pair_of, picked, rows_of, transformed

DOMAIN = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _compared_in(ctx: Context, x: Expr) -> str:
    return "float64" if ctx.dtype(x) == "float64" else "float32"


def _combined(ctx: Context, forest: Forest, rows: Expr, aggregate: str) -> Expr:
    if aggregate not in _AGGREGATES:
        ctx.fail(f"aggregate_function is {aggregate!r}; it is one of {', '.join(_AGGREGATES)}")
    scores = forest.scores(rows, "SUM" if aggregate == "AVERAGE" else aggregate)
    return binary(ctx, "divide", scores, float(len(forest.roots))) if aggregate == "AVERAGE" else scores


def _values(ctx: Context, floats: Sequence[float], tensor: onnx.TensorProto | None, name: str) -> list[float]:
    """Return what a list or, in newer versions, a tensor gives."""
    if floats and tensor is not None:
        ctx.fail(f"{name} and {name}_as_tensor are given; one of them must go")
    return numpy_tensor(tensor, f"{name}_as_tensor").ravel().tolist() if tensor is not None else list(floats)


def _listed_forest(ctx: Context, dtype: str, targets: int, added: Sequence[Sequence[Any]], **nodes: Any) -> Forest:
    """Return the trees of the older operators: rows of nodes, each with its tree and its number there.

    Parameters
    ----------
    added : sequence
        Trees, nodes, targets and weights of what the leaves add.
    **nodes
        The attributes of the nodes by name, without ``nodes_``.
    """
    trees, numbers = nodes["treeids"], nodes["nodeids"]
    values = _values(ctx, nodes["values"], nodes["values_as_tensor"], "nodes_values")
    columns = {
        "modes": nodes["modes"], "featureids": nodes["featureids"], "values": values, "nodeids": numbers,
        "truenodeids": nodes["truenodeids"], "falsenodeids": nodes["falsenodeids"],
    }  # fmt: skip
    for name, column in columns.items():
        if len(column) != len(trees):
            ctx.fail(f"nodes_{name} has {len(column)} elements, nodes_treeids has {len(trees)}")
    missing = nodes["missing_value_tracks_true"] or [0] * len(trees)
    places = {key: place for place, key in enumerate(zip(trees, numbers, strict=True))}
    if len(places) != len(trees):
        ctx.fail("two nodes of a tree have one number")
    made = []
    for place, tree in enumerate(trees):
        if nodes["modes"][place] == "LEAF":
            made.append(Node("LEAF"))
            continue
        true, false = (places.get((tree, nodes[f"{way}nodeids"][place]), -1) for way in ("true", "false"))
        if min(true, false) < 0:
            ctx.fail(f"behind node {numbers[place]} of tree {tree} there is a node that the tree lacks")
        feature, value = int(nodes["featureids"][place]), float(values[place])
        made.append(Node(nodes["modes"][place], feature, value, (), bool(missing[place]), true, false))
    if len({len(column) for column in added}) != 1:
        ctx.fail(f"trees, nodes, ids and weights of leaves differ in length: {', '.join(str(len(c)) for c in added)}")
    for tree, number, target, weight in zip(*added, strict=True):
        if (tree, number) not in places:
            ctx.fail(f"tree {tree} has no node {number}, which weights are given for")
        made[places[tree, number]].weights.append((int(target), float(weight)))
    # A tree begins with the first of its nodes that is behind no other one.
    behind_one = {b for n in made if n.mode != "LEAF" for b in (n.true, n.false)}
    first = [place for place in range(len(trees)) if place not in behind_one]
    begun = [trees[place] for place in first]
    for tree in dict.fromkeys(trees):
        if begun.count(tree) != 1:
            ctx.fail(f"tree {tree} has {begun.count(tree)} first nodes, which are behind no other; it must have one")
    forest = Forest(made, first, targets, dtype)
    if forest.reached < len(made):
        ctx.fail(f"{len(made) - forest.reached} nodes are behind each other, and no tree leads to them")
    return forest


@converter("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(
    ctx: Context,
    x: Expr,
    *,
    aggregate_function: str = "SUM",
    base_values: Sequence[float] = (),
    base_values_as_tensor: onnx.TensorProto | None = None,
    n_targets: int = 1,
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: onnx.TensorProto | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: onnx.TensorProto | None = None,
    post_transform: str = "NONE",
    target_ids: Sequence[int] = (),
    target_nodeids: Sequence[int] = (),
    target_treeids: Sequence[int] = (),
    target_weights: Sequence[float] = (),
    target_weights_as_tensor: onnx.TensorProto | None = None,
) -> Expr:
    weights = _values(ctx, target_weights, target_weights_as_tensor, "target_weights")
    base = _values(ctx, base_values, base_values_as_tensor, "base_values")
    dtype = _compared_in(ctx, x)
    forest = _listed_forest(
        ctx, dtype, n_targets, [target_treeids, target_nodeids, target_ids, weights],
        treeids=nodes_treeids, nodeids=nodes_nodeids, modes=nodes_modes, featureids=nodes_featureids,
        values=nodes_values, values_as_tensor=nodes_values_as_tensor, truenodeids=nodes_truenodeids,
        falsenodeids=nodes_falsenodeids, missing_value_tracks_true=nodes_missing_value_tracks_true,
    )  # fmt: skip
    scores = _combined(ctx, forest, rows_of(ctx, x, dtype), aggregate_function)
    if len(base) == n_targets:
        scores = relay.add(scores, ctx.constant(base, dtype))
    elif base:
        ctx.fail(f"base_values has {len(base)} elements for {n_targets} targets")
    return relay.cast(_target_transform(ctx, scores, n_targets, post_transform), "float32")


def _target_transform(ctx: Context, scores: Expr, targets: int, transform: str) -> Expr:
    """Return what a regressor gives: of one target, onnxruntime transforms by PROBIT alone."""
    return scores if targets == 1 and transform in set(TRANSFORMS) - {"PROBIT"} else transformed(ctx, scores, transform)


@converter("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(
    ctx: Context,
    x: Expr,
    *,
    base_values: Sequence[float] = (),
    base_values_as_tensor: onnx.TensorProto | None = None,
    class_ids: Sequence[int] = (),
    class_nodeids: Sequence[int] = (),
    class_treeids: Sequence[int] = (),
    class_weights: Sequence[float] = (),
    class_weights_as_tensor: onnx.TensorProto | None = None,
    classlabels_int64s: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    nodes_falsenodeids: Sequence[int] = (),
    nodes_featureids: Sequence[int] = (),
    nodes_hitrates: Sequence[float] = (),
    nodes_hitrates_as_tensor: onnx.TensorProto | None = None,
    nodes_missing_value_tracks_true: Sequence[int] = (),
    nodes_modes: Sequence[str] = (),
    nodes_nodeids: Sequence[int] = (),
    nodes_treeids: Sequence[int] = (),
    nodes_truenodeids: Sequence[int] = (),
    nodes_values: Sequence[float] = (),
    nodes_values_as_tensor: onnx.TensorProto | None = None,
    post_transform: str = "NONE",
) -> list[Expr]:
    labels = class_labels(ctx, classlabels_strings, classlabels_int64s)
    weights = _values(ctx, class_weights, class_weights_as_tensor, "class_weights")
    base = _values(ctx, base_values, base_values_as_tensor, "base_values")
    dtype = _compared_in(ctx, x)
    forest = _listed_forest(
        ctx, dtype, len(labels), [class_treeids, class_nodeids, class_ids, weights],
        treeids=nodes_treeids, nodeids=nodes_nodeids, modes=nodes_modes, featureids=nodes_featureids,
        values=nodes_values, values_as_tensor=nodes_values_as_tensor, truenodeids=nodes_truenodeids,
        falsenodeids=nodes_falsenodeids, missing_value_tracks_true=nodes_missing_value_tracks_true,
    )  # fmt: skip
    scores = forest.scores(rows_of(ctx, x, dtype), "SUM")
    if len(base) > len(labels):
        ctx.fail(f"base_values has {len(base)} elements for {len(labels)} classes")
    scored = set(class_ids)
    if len(labels) > 2:
        index, scores = _of_many(ctx, scores, base, scored, len(labels))
        scores = transformed(ctx, scores, post_transform)
    elif len(labels) == 2:
        is_positive = all(w >= 0 for w in weights)
        index, scores = _of_two(ctx, scores, base, scored, is_positive, post_transform)
    else:
        scores = relay.add(scores, ctx.constant(base or [0.0], dtype))
        index = _above(ctx, scores, 0.0)
        # onnxruntime calls the only class 1, and what is not in it 0.
        labels = np.array([0, 1], "int64") if labels.dtype != object else np.array([labels[0]] * 2, object)
        scores = transformed(ctx, scores, post_transform) if post_transform == "PROBIT" else scores
    return [picked(labels, index), relay.cast(scores, "float32")]


def _above(ctx: Context, scores: Expr, threshold: float) -> Expr:
    """Return 1 for each row of a matrix of one column that is above a threshold, else 0."""
    column = relay.squeeze(scores, axis=[1])
    return relay.cast(relay.greater(column, ctx.constant(threshold, ctx.dtype(scores))), "int64")


def _column(scores: Expr, index: int) -> Expr:
    return relay.strided_slice(scores, [index], [index + 1], axes=[1])


def _of_many(ctx: Context, scores: Expr, base: Sequence[float], scored: set[int], count: int) -> tuple[Expr, Expr]:
    """Return the best of more than two classes, of those that anything is known of, and the scores."""
    scores = relay.add(scores, ctx.constant([*base, *[0.0] * (count - len(base))], ctx.dtype(scores)))
    known = [c < len(base) or c in scored for c in range(count)]
    best = scores
    if not all(known):
        best = relay.where(constant(np.array([known])), scores, ctx.constant(-math.inf, ctx.dtype(scores)))
    return relay.cast(relay.argmax(best, axis=1), "int64"), scores


def _of_two(
    ctx: Context, scores: Expr, base: Sequence[float], scored: set[int], is_positive: bool, transform: str
) -> tuple[Expr, Expr]:
    """Return which of two classes it is, and their scores.

    Models of two classes often score one of them alone; then what is known of the other is what the first lacks to 1,
    or its opposite where weights may be negative. With a base value for each, onnxruntime takes the first score for
    both.
    """
    dtype = ctx.dtype(scores)
    threshold = 0.5 if is_positive and len(scored) < 2 else 0.0
    first, second = _column(scores, 0), _column(scores, 1)
    if 1 in scored or len(base) == 2:
        if len(base) == 2 and 1 in scored:
            second = relay.add(first, ctx.constant(base[1], dtype))
            first = relay.negative(second) if 0 in scored else first
        elif base and 0 in scored:
            first = relay.add(first, ctx.constant(base[0], dtype))
        pair = relay.concatenate([first, second], axis=1)
        return _above(ctx, second if 1 in scored else first, threshold), transformed(ctx, pair, transform)
    score = relay.add(first, ctx.constant(base[0], dtype)) if base else first
    return _above(ctx, score, threshold), pair_of(ctx, score, transform, is_share=is_positive)


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
    _give_members(ctx, nodes, list(tree_roots), membership_values)
    leaves = [Node("LEAF", weights=[(int(t), float(w))]) for t, w in zip(leaf_targetids, weights, strict=True)]
    dtype = _compared_in(ctx, x)
    forest = Forest([*nodes, *leaves], list(tree_roots), n_targets, dtype)
    scores = _combined(ctx, forest, rows_of(ctx, x, dtype), _AGGREGATES[aggregate_function])
    return relay.cast(_target_transform(ctx, scores, n_targets, TRANSFORMS[post_transform]), ctx.dtype(x))


def _give_members(ctx: Context, nodes: list[Node], roots: list[int], values: onnx.TensorProto | None) -> None:
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
