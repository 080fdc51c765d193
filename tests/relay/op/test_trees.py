"""Tables of trees of sizes that do not go together are refused: the kernel would read behind their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import TypeCheckError
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
