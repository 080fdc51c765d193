"""Ranges, diagonals and other tensors made of sizes and positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.feeds import FEEDS, X
from tests.frontend.onnx.programs import Compiled, array, check, model, node, outputs_of

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "trilu": ([node("Trilu", "x", "a"), node("Trilu", "x k", "b", upper=0)], {"k": np.array(1)}),
    "eye": ([node("Flatten", "x", "m"), node("EyeLike", "m", "a", k=1, dtype=7)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_diagonals(name: str) -> None:
    nodes, constants = CASES[name]
    check(model(nodes, X, outputs_of(nodes), constants), *FEEDS)


def test_limits_and_diagonals_that_are_read() -> None:
    inputs = X | {"low": ([], "float32"), "high": ([], "float32"), "k": ([], "int64")}
    nodes = [node("Clip", "x low high", "a"), node("Clip", "x _ high", "b"), node("Trilu", "x k", "c")]
    names = ("low", "high", "k")
    ways = [(-1.0, 1.0, 0), (1.0, -1.0, -2), (0.5, 0.5, 3)]
    kinds = ("float32", "float32", "int64")
    feeds = [{n: np.array(v, d) for n, v, d in zip(names, way, kinds, strict=True)} for way in ways]
    check(model(nodes, inputs, "a b c"), *[{"x": array(2, 3, 4)} | feed for feed in feeds])


@pytest.mark.parametrize("stash_type", [None, 1, 10])
def test_ranges_of_float16_are_computed_in_the_type_that_is_asked_for(stash_type: int | None) -> None:
    attributes = {} if stash_type is None else {"stash_type": stash_type}
    proto = model([node("Range", "a b c", "y", **attributes)], {k: ([], "float16") for k in "abc"}, "y", opset=28)
    start, limit, delta = np.float16(0.1), np.float16(7), np.float16(0.3)
    (y,) = Compiled(proto)(a=start, b=limit, c=delta)
    assert y.dtype == np.float16
    steps = np.arange(len(y), dtype="float32") * np.float32(delta) + np.float32(start)
    assert len(y) == 23
    np.testing.assert_allclose(y.astype("float32"), steps, rtol=2e-3)
