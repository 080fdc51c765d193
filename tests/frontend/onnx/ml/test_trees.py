"""Ensembles of decision trees, random ones compared with onnxruntime."""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import vmkit
from tests.frontend.onnx.ml.models import I64, D, F, S, agrees, single
from vmkit.errors import ModelError, VMError

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
FEATURES = 6


class Ensemble:
    """Random trees as the attributes of the older operators."""

    def __init__(
        self, trees: int, depth: int, targets: int, *, modes: list[str], growth: float = 1.0, seed: int = 0
    ) -> None:
        self.random, self.depth, self.growth, self.modes = np.random.default_rng(seed), depth, growth, modes
        names = "treeids nodeids modes featureids values truenodeids falsenodeids missing_value_tracks_true"
        self.nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in names.split()}
        self.leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
        for tree in range(trees):
            self.count = 0
            self.grow(tree, 0, targets)

    def grow(self, tree: int, depth: int, targets: int) -> int:
        number, place = self.count, len(self.nodes["nodes_modes"])
        self.count += 1
        is_leaf = depth == self.depth or self.random.random() > self.growth
        mode = "LEAF" if is_leaf else str(self.random.choice(self.modes))
        missing = int(len(self.modes) > 1 and not is_leaf and self.random.random() < 0.5)
        feature, value = int(self.random.integers(FEATURES)), round(float(self.random.normal()), 1)
        row = [tree, number, mode, 0 if is_leaf else feature, 0.0 if is_leaf else value, 0, 0, missing]
        for column, element in zip(self.nodes.values(), row, strict=True):
            column.append(element)
        if is_leaf:
            whole = self.random.random() < 0.7
            for target in range(targets) if whole else [int(self.random.integers(targets))]:
                weight = float(self.random.normal())
                for column, element in zip(self.leaves.values(), [tree, number, target, weight], strict=True):
                    column.append(element)
        else:
            for way in ("nodes_truenodeids", "nodes_falsenodeids"):
                self.nodes[way][place] = self.grow(tree, depth + 1, targets)
        return number

    def regressor(self, targets: int, dtype: str = "float32", **more: Any) -> Any:
        leaves = {f"target_{name}": column for name, column in self.leaves.items()}
        rows = {"x": (["n", FEATURES], dtype)}
        return single("TreeEnsembleRegressor", rows, [F], 3, n_targets=targets, **self.nodes, **leaves, **more)

    def classifier(self, labels: list[Any], **more: Any) -> Any:
        leaves = {f"class_{name}": column for name, column in self.leaves.items()}
        leaves = {**leaves, **more}
        named = "classlabels_strings" if isinstance(labels[0], str) else "classlabels_int64s"
        code = S if isinstance(labels[0], str) else I64
        rows = {"x": (["n", FEATURES], "float32")}
        return single("TreeEnsembleClassifier", rows, [code, F], 3, **{named: labels}, **self.nodes, **leaves)


def rows(count: int, *, holes: bool = False) -> np.ndarray:
    random = np.random.default_rng(count)
    x = np.round(random.normal(size=(count, FEATURES)), 1).astype("float32")
    x[random.random(x.shape) < 0.1 * holes] = np.nan
    return x


def test_a_large_ensemble_agrees_at_every_number_of_rows() -> None:
    model = Ensemble(203, 7, 1, modes=["BRANCH_LEQ"]).regressor(1)
    agrees(model, *[{"x": rows(count)} for count in (0, 1, 2, 64, 65, 300)])


@pytest.mark.sweep
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("growth", [1.0, 0.75])
def test_every_question_and_aggregate_agrees_with_missing_values(aggregate: str, targets: int, growth: float) -> None:
    made = Ensemble(13, 6, targets, modes=MODES, growth=growth, seed=targets)
    more = {"base_values": [0.5, -1.0, 2.0][:targets], "post_transform": "LOGISTIC" if targets > 1 else "NONE"}
    model = made.regressor(targets, aggregate_function=aggregate, **more)
    agrees(model, {"x": rows(70, holes=True)}, {"x": rows(3, holes=True)})


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("growth", [1.0, 0.6])
@pytest.mark.parametrize("modes", [["BRANCH_LEQ", "BRANCH_LEQ"], MODES[:4]])
def test_what_is_missing_goes_its_way_where_nothing_asks_for_equality(
    modes: list[str], growth: float, dtype: str
) -> None:
    made = Ensemble(13, 6, 1, modes=modes, growth=growth, seed=5)
    values = made.nodes["nodes_values"]
    limits = [math.inf, -math.inf, math.nan, 0.0, -0.0, float(np.finfo(dtype).max), float(np.finfo(dtype).min)]
    asking = [k for k, mode in enumerate(made.nodes["nodes_modes"]) if mode != "LEAF"]
    for at, place in enumerate(asking[::3]):
        values[place] = limits[at % len(limits)]
    x = rows(70, holes=True).astype(dtype)
    for at, value in enumerate([*limits, float(np.finfo(dtype).smallest_subnormal)]):
        x[at :: len(limits) + 7, at % FEATURES] = value
    agrees(made.regressor(1, dtype), {"x": x}, {"x": x[:1]})
    agrees(Ensemble(9, 5, 1, modes=modes, growth=growth).regressor(1, dtype), {"x": x}, {"x": x[3:6]})


@pytest.mark.parametrize("width", [700, 6000])
def test_what_is_missing_goes_its_way_among_many_features(width: int) -> None:
    """Rows are walked down in smaller blocks, the more features they have."""
    made = Ensemble(11, 5, 1, modes=MODES[:4], growth=0.7, seed=3)
    made.nodes["nodes_featureids"] = [place * width // FEATURES for place in made.nodes["nodes_featureids"]]
    leaves = {f"target_{name}": column for name, column in made.leaves.items()}
    wide = {"x": (["n", width], "float32")}
    model = single("TreeEnsembleRegressor", wide, [F], 3, n_targets=1, **made.nodes, **leaves)
    random = np.random.default_rng(width)
    x = random.normal(size=(70, width)).astype("float32")
    x[random.random(x.shape) < 0.2] = np.nan
    agrees(model, {"x": x}, {"x": x[:1]}, {"x": x[:9]})


def test_trees_that_share_nodes_and_roots() -> None:
    """Trees of the newest operator may lead to one node from several, and from two trees."""
    attributes = {
        "nodes_featureids": [0, 1, 1, 2], "nodes_modes": numpy_helper.from_array(np.zeros(4, "uint8"), "m"),
        "nodes_splits": numpy_helper.from_array(np.float32([0.0, 0.5, -0.5, 0.0]), "s"),
        "nodes_truenodeids": [1, 3, 3, 0], "nodes_trueleafs": [0, 0, 0, 1],
        "nodes_falsenodeids": [2, 0, 1, 1], "nodes_falseleafs": [0, 1, 1, 1],
        "leaf_targetids": [0, 0], "leaf_weights": numpy_helper.from_array(np.float32([1.0, 10.0]), "w"),
        "tree_roots": [0, 2, 2], "n_targets": 1,
    }  # fmt: skip
    proto = single("TreeEnsemble", {"x": (["n", 3], "float32")}, [F], version=5, **attributes)
    x = np.random.default_rng(0).normal(size=(50, 3)).astype("float32")
    shared = np.where(x[:, 2] <= 0, 1.0, 10.0)
    first = np.where(x[:, 1] <= 0.5, shared, 1.0)
    second = np.where(x[:, 1] <= -0.5, shared, 10.0)
    expected = np.where(x[:, 0] <= 0, first, second) + 2 * second
    result = vmkit.VirtualMachine(vmkit.compile(proto, target="llvm")).run(x).numpy()
    np.testing.assert_array_equal(result[:, 0], expected.astype("float32"))


@pytest.mark.sweep
@pytest.mark.parametrize("aggregate", ["SUM", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [2, 5, 17])
def test_leaves_that_add_to_each_target_in_turn(targets: int, aggregate: str) -> None:
    """In rows of a table, beside leaves in any other order and leaves that add to some."""
    made = Ensemble(11, 3, 1, modes=["BRANCH_LEQ"], growth=0.9)
    leaves = made.leaves
    for change in ("none", "order", "some"):
        made.leaves = {name: [value for value in leaves[name] for _ in range(targets)] for name in leaves}
        made.leaves["ids"] = [*range(targets)] * len(leaves["ids"])
        made.leaves["weights"] = np.random.default_rng(1).normal(size=len(made.leaves["ids"])).tolist()
        if change == "order":
            made.leaves["ids"][:2] = 1, 0
        if change == "some":
            for column in made.leaves.values():
                del column[3]
        agrees(made.regressor(targets, aggregate_function=aggregate), {"x": rows(20)}, {"x": rows(1)})


@pytest.mark.sweep
@pytest.mark.parametrize("growth", [1.0, 0.6])
@pytest.mark.parametrize(("trees", "targets"), [(1, 1), (2, 3), (3, 1), (4, 2), (5, 1)])
def test_few_trees_agree_at_every_number_of_rows(trees: int, targets: int, growth: float) -> None:
    """Several rows walk down them at once, of which the last may be missing."""
    model = Ensemble(trees, 6, targets, modes=MODES, growth=growth, seed=trees).regressor(targets)
    agrees(model, *[{"x": rows(count, holes=True)} for count in (0, 1, 3, 8, 64, 65, 131)])


def test_few_trees_of_unlike_depth_compile_in_about_the_time_of_full_ones() -> None:
    """What one lane of a row hands to the next has no name: TVM would write out what it stands for, lane by lane."""

    def seconds(growth: float) -> float:
        model = Ensemble(2, 6, 3, modes=MODES, growth=growth, seed=2).regressor(3)
        start = time.process_time()
        vmkit.compile(model, target="llvm")
        return time.process_time() - start

    seconds(1.0)  # what is imported with the first
    assert seconds(0.6) < 8 * seconds(1.0)


@pytest.mark.sweep
@pytest.mark.parametrize("aggregate", ["SUM", "MAX"])
@pytest.mark.parametrize("targets", [1, 2])
def test_leaves_with_several_weights_for_a_target(targets: int, aggregate: str) -> None:
    """Of one target the first of them counts, as of the numbers of leaves that skl2onnx writes once for each class."""
    ensemble = Ensemble(3, 4, 1, modes=["BRANCH_LEQ"])
    for name, column in ensemble.leaves.items():
        ensemble.leaves[name] = [*column, *(w + 1 for w in column)] if name == "weights" else [*column, *column]
    agrees(ensemble.regressor(targets, aggregate_function=aggregate), {"x": rows(40)})


def test_trees_take_doubles_and_integers_and_tensors_of_doubles() -> None:
    made = Ensemble(9, 4, 1, modes=MODES)
    agrees(made.regressor(1, "float64"), {"x": rows(30).astype("float64")})
    whole = (rows(30) * 2).astype("int64")
    results = [
        vmkit.VirtualMachine(vmkit.compile(made.regressor(1, dtype), target="llvm")).run(whole.astype(dtype)).numpy()
        for dtype in ("int32", "int64", "float32")
    ]
    assert results[0].tolist() == results[1].tolist() == results[2].tolist()
    values, weights = made.nodes.pop("nodes_values"), made.leaves.pop("weights")
    tensors = {"nodes_values_as_tensor": values, "target_weights_as_tensor": weights}
    as_tensors = {name: numpy_helper.from_array(np.array(column), name) for name, column in tensors.items()}
    agrees(made.regressor(1, "float64", **as_tensors), {"x": rows(30).astype("float64")})


@pytest.mark.sweep
@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize(
    ("labels", "only", "base"),
    [
        ([0, 1], 0, []), ([0, 1], 0, [0.1]), ([0, 1], 1, []), (["u", "v"], None, [0.1, 0.2]), ([0, 1], 1, [0.1, 0.2]),
        (["a", "b", "c"], None, []), ([7, 5, 9], None, [0.5, 0.1, 0.2]), ([0], 0, []),
    ],
)  # fmt: skip
def test_classes_and_scores_agree(post: str, labels: list[Any], only: int | None, base: list[float]) -> None:
    made = Ensemble(8, 4, 1 if only is not None else len(labels), modes=["BRANCH_LT"], seed=3)
    ids = made.leaves["ids"] if only is None else [only] * len(made.leaves["ids"])
    for weights in (made.leaves["weights"], [abs(w) / 8 for w in made.leaves["weights"]]):
        more = {"class_ids": ids, "class_weights": weights, **({"base_values": base} if base else {})}
        agrees(made.classifier(labels, post_transform=post, **more), {"x": rows(40)})


def newest(x: np.ndarray, aggregate: int, code: int) -> tuple[Any, np.ndarray]:
    """Return a model of version 5 with sets and the values that onnx.reference gives for it."""
    dtype = helper.tensor_dtype_to_np_dtype(code)

    def tensor(name: str, values: list[float], kind: Any = dtype) -> TensorProto:
        return numpy_helper.from_array(np.array(values, kind), name)

    attributes = {
        "n_targets": 2, "aggregate_function": aggregate, "tree_roots": [0, 3],
        "nodes_featureids": [0, 1, 2, 3], "nodes_modes": tensor("modes", [0, 6, 4, 6], "uint8"),
        "nodes_splits": tensor("splits", [0.5, 0, 1, 0]), "membership_values": tensor(
            "members", [0.5, -1, 2, float("nan"), 1, float("nan")]),
        "nodes_truenodeids": [1, 0, 2, 0], "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 4], "nodes_falseleafs": [0, 1, 1, 1],
        "nodes_missing_value_tracks_true": [0, 1, 0, 0],
        "leaf_targetids": [0, 1, 0, 1, 1], "leaf_weights": tensor("weights", [1, 2.5, -3, 4, 0.5]),
    }  # fmt: skip
    model = single("TreeEnsemble", {"x": (["n", FEATURES], dtype)}, [code], 5, **attributes)
    return model, ReferenceEvaluator(model).run(None, {"x": x})[0]


@pytest.mark.parametrize("code", [F, D, TensorProto.FLOAT16])
def test_the_newest_ensembles_ask_for_membership_in_sets(code: int) -> None:
    random = np.random.default_rng(0)
    x = random.choice([0.5, -1, 2, 1, 0.25, np.nan], (50, FEATURES)).astype(helper.tensor_dtype_to_np_dtype(code))
    for aggregate in (0, 1):
        model, expected = newest(x, aggregate, code)
        result = vmkit.VirtualMachine(vmkit.compile(model, target="llvm")).run(x).numpy()
        assert result.dtype == x.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-3)


def test_features_that_rows_lack_are_an_error() -> None:
    made = Ensemble(3, 5, 1, modes=["BRANCH_LEQ"])
    model = made.regressor(1)
    with pytest.raises(ModelError, match="the trees read feature 5; data has 4 features"):
        vmkit.compile(model, target="llvm", shapes={"x": ("n", 4)})
    machine = vmkit.VirtualMachine(vmkit.compile(model, target="llvm", shapes={"x": ("n", "m")}))
    with pytest.raises(VMError, match="the trees read feature 5; data has fewer features"):
        machine.run(np.zeros((2, 4), "float32"))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("nodes_truenodeids", 99, "a node that the tree lacks"),
        ("nodes_truenodeids", 0, "no tree leads to them"),
        ("nodes_truenodeids", -1, "a node that the tree lacks"),
        ("nodes_nodeids", 0, "two nodes of a tree have one number"),
        ("nodes_treeids", 7, "tree 7 has 2 first nodes|a node that the tree lacks"),
        ("nodes_modes", "BRANCH_NO", "the mode 'BRANCH_NO'"),
        ("nodes_modes", "BRANCH_MEMBER", "the mode 'BRANCH_MEMBER'"),
        ("nodes_featureids", -3, "reads feature -3"),
    ],
)
def test_trees_that_lead_nowhere_are_refused(name: str, value: Any, said: str) -> None:
    made = Ensemble(1, 2, 1, modes=["BRANCH_LEQ"])
    made.nodes[name][1] = value
    with pytest.raises(ModelError, match=said):
        vmkit.compile(made.regressor(1), target="llvm")


def test_weights_of_a_target_that_there_is_not_are_refused() -> None:
    made = Ensemble(1, 2, 1, modes=["BRANCH_LEQ"])
    made.leaves["ids"][0] = 4
    with pytest.raises(ModelError, match="adds to target 4; there are 2"):
        vmkit.compile(made.regressor(2), target="llvm")


def test_trees_of_little_depth_are_summed_up_in_their_order() -> None:
    # Of two stumps and one leaf only the order says whether the small number counts.
    attributes = {
        "nodes_treeids": [0, 0, 0, 1, 1, 1, 2], "nodes_nodeids": [0, 1, 2, 0, 1, 2, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_featureids": [0] * 7, "nodes_values": [0.0] * 7, "nodes_truenodeids": [1, 0, 0, 1, 0, 0, 0],
        "nodes_falsenodeids": [2, 0, 0, 2, 0, 0, 0], "target_treeids": [0, 0, 1, 1, 2],
        "target_nodeids": [1, 2, 1, 2, 0], "target_ids": [0] * 5, "target_weights": [1e8, 2e8, -1e8, -2e8, 1.0],
    }  # fmt: skip
    proto = single("TreeEnsembleRegressor", {"x": (["n", 1], "float32")}, [F], version=1, n_targets=1, **attributes)
    x = np.float32([[-1], [1]])
    agrees(proto, {"x": x})
    result = vmkit.VirtualMachine(vmkit.compile(proto, target="llvm")).run(x).numpy()
    assert result.tolist() == [[1.0], [1.0]]


def test_trees_whose_nodes_are_in_any_order_and_under_any_numbers_are_the_same() -> None:
    made = Ensemble(5, 4, 1, modes=MODES, growth=0.9)
    x = np.random.default_rng(1).standard_normal((40, FEATURES)).astype("float32")
    expected = vmkit.VirtualMachine(vmkit.compile(made.regressor(1), target="llvm")).run(x).numpy()
    order = np.random.default_rng(2).permutation(len(made.nodes["nodes_modes"])).tolist()
    numbers = {"treeids": lambda t: 100 - 7 * t, "nodeids": lambda n: 1000 - 13 * n}
    for name, column in made.nodes.items():
        moved = numbers.get(name.replace("nodes_", "").replace("true", "").replace("false", ""), lambda value: value)
        made.nodes[name] = [moved(column[k]) for k in order]
    for name in ("treeids", "nodeids"):
        made.leaves[name] = [numbers[name](value) for value in made.leaves[name]]
    got = vmkit.VirtualMachine(vmkit.compile(made.regressor(1), target="llvm")).run(x).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_import_of_a_large_forest_takes_little_more_memory_than_its_columns() -> None:
    trees, depth = 30, 9
    made = Ensemble(trees, depth, 1, modes=["BRANCH_LEQ"])
    model = made.regressor(1)
    nodes = trees * (2 ** (depth + 1) - 1)
    tracemalloc.start()
    report = vmkit.check(model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.is_supported
    assert peak < 400 * nodes  # bytes; a Python object a node takes more than that
