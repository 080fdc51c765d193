"""Tables of trees of sizes that do not go together are refused: the kernel would read behind their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import CompileError, TypeCheckError
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module

TABLES = {
    "nodes": ((3, 2), "int32"),
    "thresholds": ((3,), "float32"),
    "roots": ((8,), "int32"),
    "steps": ((2,), "int32"),
    "leaves": ((3, 2), "int32"),
    "ids": ((1,), "int32"),
    "weights": ((1,), "float32"),
}


def typed(changed: dict[str, Any], targets: int, features: int = 2) -> None:
    """Infer the type of an ensemble of eight trees, of which four are walked down at once."""
    shapes = {name: shape for name, (shape, _) in TABLES.items()} | changed
    tables = [relay.const(np.zeros(shapes[name], dtype)) for name, (_, dtype) in TABLES.items()]
    x = relay.var("x", shape=(relay.Any(), 2))
    made = build("contrib_tree_ensemble", x, *tables, targets=targets, features=features, at_once=2)
    infer_module(tvm.IRModule({"main": relay.Function([x], made)}))


def test_tables_that_go_together_are_taken() -> None:
    typed({}, 2)
    typed({"weights": (3,), "leaves": (1, 2)}, 1)


@pytest.mark.parametrize(
    ("changed", "targets", "message"),
    [
        ({"nodes": (3, 3)}, 2, "3 elements along nodes, second, expected 2"),
        ({"thresholds": (2,)}, 2, "2 elements along thresholds, expected 3"),
        ({"roots": (6,)}, 2, "there are 6 roots, expected a multiple of 4"),
        ({"steps": (1,)}, 2, "1 elements along steps, expected 2"),
        ({"leaves": (2, 2)}, 2, "2 elements along leaves, first, expected 3"),
        ({"leaves": (3, 1)}, 2, "1 elements along leaves, second, expected 2"),
        ({}, 1, "1 elements along weights, expected 3"),
        ({"roots": (8, 1)}, 2, r"have \[2, 1, 2, 1, 2, 1\] dimensions"),
    ],
)
def test_tables_that_lack_what_is_read_are_refused(changed: dict[str, Any], targets: int, message: str) -> None:
    with pytest.raises(TypeCheckError, match=message):
        typed(changed, targets)


@pytest.mark.parametrize("features", [-1, 1 << 28])
def test_numbers_of_features_that_nodes_cannot_tell_are_refused(features: int) -> None:
    with pytest.raises(TypeCheckError, match=f"features is {features}; trees read 0 to 268435455 of them"):
        typed({}, 2, features)


# One tree of a question and two leaves, and ids and weights of two targets.
SOUND = {
    "nodes": np.array([[1, 1], [0, 0], [0, 1]], "int32"),
    "thresholds": np.array([0.5, np.nan, np.nan], "float32"),
    "roots": np.zeros(8, "int32"),
    "steps": np.ones(1, "int32"),
    "leaves": np.array([[0, 0], [0, 1], [1, 3]], "int32"),
    "ids": np.array([0, 0, 1], "int32"),
    "weights": np.array([1, 2, 3], "float32"),
}
ROWS = np.array([[0, 0], [0, 1], [9, 0.5]], "float32")
WANTED = np.array([[8, 0], [16, 24], [8, 0]], "float32")


def walked(tables: dict[str, np.ndarray], known: bool, **attrs: Any) -> Any:
    """Return a machine of two targets' trees, and what its ``run`` takes beside the rows."""
    x = relay.var("x", shape=(relay.Any(), 2))
    given = {name: relay.const(value) if known else relay.var(name, shape=value.shape, dtype=str(value.dtype))
             for name, value in tables.items()}  # fmt: skip
    made = build("contrib_tree_ensemble", x, *given.values(), **{"targets": 2, "features": 2, **attrs})
    inputs = [] if known else list(given.values())
    return vmkit.VirtualMachine(vmkit.compile(relay.Function([x, *inputs], made), "llvm"), "cpu")


@pytest.mark.parametrize("attrs", [{}, {"is_uneven": True}, {"questions": "ANY"}, {"questions": "TURNED"}])
def test_trees_of_tables_that_a_run_gives(attrs: dict[str, Any]) -> None:
    np.testing.assert_array_equal(walked(SOUND, True, **attrs).run(ROWS).numpy(), WANTED)
    machine = walked(SOUND, False, **attrs)
    np.testing.assert_array_equal(machine.run(ROWS, **SOUND).numpy(), WANTED)
    for name in ("nodes", "roots", "steps", "leaves", "ids"):
        for number in (-(1 << 31), -1, 3, (1 << 31) - 1):
            tables = SOUND | {name: np.full_like(SOUND[name], number)}
            assert machine.run(ROWS, **tables).numpy().shape == (3, 2)
    circle = SOUND | {"nodes": np.zeros((3, 2), "int32"), "thresholds": np.full(3, np.inf, "float32")}
    assert machine.run(ROWS, **circle).numpy().shape == (3, 2)


def test_leaves_that_add_to_all_targets() -> None:
    whole = SOUND | {
        "leaves": np.array([[4, 4], [0, 2], [2, 4]], "int32"),
        "ids": np.array([0, 1, 0, 1], "int32"),
        "weights": np.array([1, 2, 3, 4], "float32"),
    }
    wanted = np.array([[8, 16], [24, 32], [8, 16]], "float32")
    np.testing.assert_array_equal(walked(whole, True, is_whole=True).run(ROWS).numpy(), wanted)
    machine = walked(whole, False, is_whole=True)
    np.testing.assert_array_equal(machine.run(ROWS, **whole).numpy(), wanted)
    for number in (-(1 << 31), (1 << 31) - 1):
        far = whole | {"leaves": np.full((3, 2), number, "int32")}
        assert machine.run(ROWS, **far).numpy().shape == (3, 2)
    none = whole | {"steps": np.zeros(1, "int32")}  # stays at the root, which holds nothing
    assert walked(none, True, is_whole=True).run(ROWS).numpy().shape == (3, 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes": np.array([[1, 2], [0, 0], [0, 1]])}, "node 0 of 3 leads to none"),
        ({"nodes": np.array([[2, 1], [0, 0], [0, 1]])}, "asks for no feature"),
        ({"roots": np.full(8, 3)}, "roots are from 0 to 2"),
        ({"steps": np.array([-1])}, "steps are from 0 to 3"),
        ({"leaves": np.array([[0, 0], [0, 1], [1, 4]])}, "leaves are from 0 to 3"),
        ({"ids": np.array([0, 0, 2])}, "ids are from 0 to 1"),
    ],
)
def test_known_tables_that_lead_nowhere_are_refused(changed: dict[str, np.ndarray], message: str) -> None:
    tables = SOUND | {name: value.astype(SOUND[name].dtype) for name, value in changed.items()}
    with pytest.raises(CompileError, match=message):
        walked(tables, True)
