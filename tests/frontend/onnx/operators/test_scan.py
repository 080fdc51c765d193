"""Scan: a body for every slice, of opset 8 with a batch and of later ones with axes and directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.programs import Compiled, array, check, graph, model, node
from vmkit.errors import ModelError, VMError

BODY = graph(
    [
        node("Add", "s a", "t0"),
        node("Mul", "t0 decay", "t1"),
        node("Add", "t1 b", "t"),
        node("ReduceSum", "t", "total", keepdims=0),
        node("Neg", "t", "row"),
    ],
    {"s": (["k"], "float32"), "a": (["k"], "float32"), "b": ([1], "float32")},
    "t total row",
)
X = {"s0": (["k"], "float32"), "x": (["n", "k"], "float32"), "z": ([1, "n"], "float32")}


def feeds(shape_x: Any, shape_z: Any, *sizes: tuple[int, int]) -> list[dict[str, np.ndarray]]:
    return [{"s0": array(k), "x": array(*shape_x(n, k), seed=1), "z": array(*shape_z(n), seed=2)} for n, k in sizes]


@pytest.mark.sweep
@pytest.mark.parametrize("directions", [(0, 0, 0, 0), (1, 0, 0, 1), (0, 1, 1, 0)])
@pytest.mark.parametrize(("axes", "opset"), [((0, 1, 0, 0), 9), ((0, -1, 0, 1), 11), ((-2, 1, -1, -1), 16)])
def test_axes_and_directions(axes: tuple[int, ...], directions: tuple[int, ...], opset: int) -> None:
    attributes = {
        "scan_input_axes": axes[:2], "scan_output_axes": [0, axes[3]],
        "scan_input_directions": directions[:2], "scan_output_directions": directions[2:],
    }  # fmt: skip
    nodes = [node("Scan", "s0 x z", "s totals rows", body=BODY, num_scan_inputs=2, **attributes)]
    proto = model(nodes, X, "s totals rows", {"decay": np.float32(0.5)}, opset=opset)
    check(proto, *feeds(lambda n, k: (n, k), lambda n: (1, n), (1, 2), (5, 3)))


def test_a_sequence_of_known_length_and_one_without_any_slice() -> None:
    nodes = [node("Scan", "s0 x z", "s totals rows", body=BODY, num_scan_inputs=2, scan_input_axes=[0, 1])]
    inputs = {"s0": ([2], "float32"), "x": ([6, 2], "float32"), "z": ([1, 6], "float32")}
    check(
        model(nodes, inputs, "s totals rows", {"decay": np.float32(0.5)}),
        *feeds(lambda n, k: (n, k), lambda n: (1, n), (6, 2)),
    )
    dynamic = Compiled(model(nodes, X, "s totals rows", {"decay": np.float32(0.5)}))
    s, totals, rows = dynamic(s0=array(2), x=array(0, 2), z=array(1, 0))
    np.testing.assert_array_equal(s, array(2))
    assert (totals.shape, rows.shape) == ((0,), (0, 2))


def test_inputs_of_differing_lengths_are_refused() -> None:
    nodes = [node("Scan", "s0 x z", "s totals rows", body=BODY, num_scan_inputs=2, scan_input_axes=[0, 1])]
    inputs = {**X, "z": ([1, "m"], "float32")}
    compiled = Compiled(model(nodes, inputs, "s totals rows", {"decay": np.float32(0.5)}))
    with pytest.raises(VMError, match="different numbers of slices"):
        compiled(s0=array(2), x=array(3, 2), z=array(1, 4))
    fixed = {"s0": ([2], "float32"), "x": ([3, 2], "float32"), "z": ([1, 4], "float32")}
    with pytest.raises(ModelError, match="have 3 and 4 slices"):
        Compiled(model(nodes, fixed, "s totals rows", {"decay": np.float32(0.5)}))


def scan_of_a_batch(s0: np.ndarray, x: np.ndarray, lengths: Any, is_reversed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return what Scan of opset 8 gives for the sum of the slices so far."""
    state, rows = s0.copy(), np.zeros_like(x)
    for b in range(len(x)):
        length = x.shape[1] if lengths is None else int(lengths[b])
        for i in range(length):
            state[b] += x[b, length - 1 - i if is_reversed else i]
            rows[b, i] = state[b]
    return state, rows


@pytest.mark.sweep
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("has_lengths", [False, True])
def test_a_batch_of_sequences(has_lengths: bool, is_reversed: bool) -> None:
    body = graph(
        [node("Add", "s a", "t"), node("Identity", "t", "row")],
        {"s": ([3], "float32"), "a": ([3], "float32")},
        "t row",
    )
    lengths = "lengths" if has_lengths else "_"
    nodes = [node("Scan", f"{lengths} s0 x", "s rows", body=body, num_scan_inputs=1, directions=[int(is_reversed)])]
    inputs = {"s0": (["b", 3], "float32"), "x": (["b", "n", 3], "float32")}
    if has_lengths:
        inputs["lengths"] = (["b"], "int64")
    compiled = Compiled(model(nodes, inputs, "s rows", opset=8))
    for b, n in [(1, 1), (3, 4)]:
        feed = {"s0": array(b, 3), "x": array(b, n, 3, seed=1)}
        ends = np.arange(b) % n + 1 if has_lengths else None
        actual = compiled(**feed, **({"lengths": ends} if has_lengths else {}))
        for a, e in zip(actual, scan_of_a_batch(feed["s0"], feed["x"], ends, is_reversed), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-5)


def test_slices_of_unknown_size_are_stacked_along_a_later_axis() -> None:
    body = graph(
        [node("Concat", "s a", "row", axis=0), node("Slice", "row one end zero", "t")],
        {"s": ([None], "float32"), "a": ([None], "float32")},
        "t row",
    )
    nodes = [
        node("Compress", "x kept", "some", axis=0),
        node("Scan", "s0 some", "s rows", body=body, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1]),
    ]
    inputs = {"s0": (["k"], "float32"), "x": (["n", "m"], "float32"), "kept": (["n"], "bool")}
    ends = {"one": np.array([1]), "end": np.array([2**62]), "zero": np.array([0])}
    compiled = Compiled(model(nodes, inputs, "s rows", ends))
    for k, kept, m in [(3, [True], 4), (1, [False, True], 1)]:
        s, x = array(k), array(len(kept), m, seed=1)
        expected = []
        for column in x[np.array(kept)].T:
            expected.append(np.concatenate([s, column]))
            s = expected[-1][1:]
        last, rows = compiled(s0=array(k), x=x, kept=np.array(kept))
        np.testing.assert_array_equal(last, s)
        np.testing.assert_array_equal(rows, np.stack(expected, 1))
