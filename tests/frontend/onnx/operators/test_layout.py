"""Tensors of the same elements in another shape or order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from tests.frontend.onnx.feeds import FEEDS, X, vector
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    model,
    node,
    outputs_of,
    results_of,
)
from vmkit.errors import VMError

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "flatten": ([node("Flatten", "x", "a"), node("Flatten", "x", "b", axis=2), node("Flatten", "x", "c", axis=0)], {}),
    "transpose": ([node("Transpose", "x", "a"), node("Transpose", "x", "b", perm=[0, 2, 1])], {}),
    "squeeze": (
        [node("Unsqueeze", "x axes", "a"), node("Squeeze", "a axes", "b")],
        {"axes": np.array([0, -1])},
    ),
    "reshape": (
        [node("Reshape", "x by_copy", "a"), node("Reshape", "x by_rest", "b")],
        {"by_copy": np.array([0, 12]), "by_rest": np.array([-1, 6])},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_elements_stay_in_order_or_change_places(name: str) -> None:
    nodes, constants = CASES[name]
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_to_space_and_back(mode: str) -> None:
    nodes = [node("DepthToSpace", "x", "a", blocksize=2, mode=mode), node("SpaceToDepth", "a", "b", blocksize=2)]
    proto = model(nodes, {"x": (["n", 8, "h", 3], "float32")}, "a b")
    check(proto, {"x": array(1, 8, 2, 3)}, {"x": array(2, 8, 5, 3)})


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_becomes_space_again(mode: str) -> None:
    nodes = [
        node("SpaceToDepth", "x", "deep", blocksize=2, mode=mode),
        node("DepthToSpace", "deep", "y", blocksize=2, mode=mode),
    ]
    x = array(2, 3, 4, 6)
    deep, y = Compiled(model(nodes, {"x": (["n", 3, "h", "w"], "float32")}, "deep y", opset=28))(x=x)
    np.testing.assert_array_equal(y, x)
    blocks = x.reshape(2, 3, 2, 2, 3, 2).transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    np.testing.assert_array_equal(deep, blocks.reshape(2, 12, 2, 3))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space_of_sizes_that_only_the_run_knows(mode: str) -> None:
    inputs = {"x": (["n", 4, "h", "w"], "float32"), "pads": ([8], "int64")}
    nodes = [
        node("Pad", "x pads", "wide"),
        node("DepthToSpace", "wide", "a", blocksize=2, mode=mode),
        node("SpaceToDepth", "wide", "b", blocksize=2),
    ]
    check(
        model(nodes, inputs, "a b", opset=13),
        {"x": array(1, 4, 2, 3), "pads": vector(0, 0, 0, 0, 0, 0, 0, 1)},
        {"x": array(2, 4, 5, 3), "pads": vector(0, 4, 1, 2, 1, 0, 0, 1)},
    )


def test_dimensions_of_1_at_axes_that_are_read() -> None:
    inputs = {"x": (["n", 3, 1, 4], "float32"), "one": ([1], "int64"), "two": ([2], "int64")}
    nodes = [node("Squeeze", "x one", "a"), node("Unsqueeze", "x one", "b"), node("Unsqueeze", "x two", "c")]
    compiled = Compiled(model(nodes, inputs, "a b c", opset=13))
    for x, one, two in ((array(2, 3, 1, 4), 2, (0, -1)), (array(1, 3, 1, 4), -4, (5, 2))):
        expected = [np.squeeze(x, one), np.expand_dims(x, one), np.expand_dims(x, two)]
        assert_agrees(compiled(x=x, one=vector(one), two=vector(*two)), expected, ["a", "b", "c"])
    with pytest.raises(VMError, match="Squeeze: an axis of a tensor of 4 dimensions is not between -4 and 3"):
        compiled(x=array(2, 3, 1, 4), one=vector(4), two=vector(0, 1))


def test_without_axes_all_dimensions_of_1_go_even_where_sizes_have_names() -> None:
    nodes = [node("Squeeze", "x", "s"), node("ReduceSum", "s", "y", keepdims=0)]
    check(model(nodes, {"x": (["n", 1, "m"], "float32")}, "y"), {"x": array(2, 1, 3)}, {"x": array(1, 1, 3)})


def test_elements_of_every_stored_type_are_moved_by_a_model() -> None:
    for dtype in (ml_dtypes.int4, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float4_e2m1fn):
        x, c = np.array([[1, 2], [3, 4]]).astype(dtype), np.array([[True, False], [False, True]])
        nodes = [
            node("Transpose", "x", "t"),
            node("Where", "c x t", "w"),
            node("Concat", "x t", "j", axis=0),
            node("Shape", "x", "s"),
            node("Identity", "x", "i"),
        ]
        t, w, j, s, i = results_of(nodes, x=x, c=c)
        assert t.astype(int).tolist() == x.T.astype(int).tolist()
        assert w.astype(int).tolist() == np.where(c, x.astype(int), x.T.astype(int)).tolist()
        assert (j.dtype, j.shape, s.tolist(), i.astype(int).tolist()) == (
            x.dtype,
            (4, 2),
            [2, 2],
            x.astype(int).tolist(),
        )
