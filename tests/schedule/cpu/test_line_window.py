"""Windows that go by steps along lines of any length give what numpy says of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tvm
from tvm import relax, te

import vmkit
from vmkit import relay
from vmkit.schedule.cpu import line_stages

CASES = {
    "every second, padded": ((3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    "every third, padded at one side": ((2, 4), (1, 3), (1, 1), (0, 0, 1, 3)),
    "dilated": ((3, 2), (1, 2), (2, 3), (2, 0, 2, 2)),
    "along a line only": ((1, 3), (1, 2), (1, 1), (0, 1, 0, 1)),
    "long": ((5, 20), (3, 2), (1, 1), (0, 9, 2, 10)),
    "apart": ((2, 2), (2, 2), (1, 1), (0, 0, 0, 0)),
}


def expected(x: np.ndarray, kind: str, case: str) -> np.ndarray:
    """Return the results of windows, one after the other; padding counts for nothing."""
    size, strides, dilation, (top, left, bottom, right) = CASES[case]
    whole = np.full((*x.shape[:2], x.shape[2] + top + bottom, x.shape[3] + left + right), np.nan)
    whole[:, :, top : top + x.shape[2], left : left + x.shape[3]] = x
    reach = [(s - 1) * d + 1 for s, d in zip(size, dilation, strict=True)]
    shape = [(have - r) // s + 1 for have, r, s in zip(whole.shape[2:], reach, strides, strict=True)]
    made = np.empty((*x.shape[:2], *shape))
    for i, j in product(*map(range, shape)):
        rows = slice(i * strides[0], i * strides[0] + reach[0], dilation[0])
        columns = slice(j * strides[1], j * strides[1] + reach[1], dilation[1])
        made[:, :, i, j] = (np.nanmax if kind == "max" else np.nanmean)(whole[:, :, rows, columns], axis=(2, 3))
    return made


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("case", CASES)
def test_pools_of_images_of_any_size(case: str, kind: str, dtype: str) -> None:
    size, strides, dilation, padding = CASES[case]
    x = relay.var("x", shape=(relay.Any(), 2, relay.Any(), relay.Any()), dtype=dtype)
    pool = relay.nn.max_pool2d if kind == "max" else relay.nn.avg_pool2d
    made = relay.nn.relu(pool(x, size, strides, dilation, padding))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made)), "cpu")
    random = np.random.default_rng(0)
    for shape in ((1, 2, 13, 29), (2, 2, 14, 40), (1, 2, 24, 17), (3, 2, 5, 16), (1, 2, 40, 1100)):
        values = (random.uniform(-60, 60, shape)).astype(dtype)
        result = np.maximum(expected(values, kind, case), 0)
        # Means of integers are rounded towards zero.
        result = result.astype(dtype) if dtype != "int8" else np.trunc(result + 1e-9).astype(dtype)
        np.testing.assert_allclose(machine.run(values).numpy(), result, rtol=1e-5, atol=1e-5)


KNOWN = {
    # By name: window, steps, padding, image, and how many lines a stage takes.
    "one by one": ((3, 3), (1, 1), (1, 1, 1, 1), (57, 57), 19),
    "one by one, wide": ((3, 5), (1, 1), (1, 4, 1, 0), (12, 200), 6),
    "every second": ((3, 3), (2, 2), (1, 1, 1, 1), (32, 40), 16),
    "every second, behind": ((3, 2), (2, 2), (0, 0, 1, 1), (31, 41), 15),
    "along lines": ((1, 3), (1, 2), (0, 1, 0, 1), (6, 33), 6),
    "a prime number of long lines": ((3, 3), (1, 1), (1, 1, 1, 1), (7, 300), 1),
    "short lines": ((3, 3), (2, 2), (1, 1, 1, 1), (14, 14), 1),
}


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("case", KNOWN)
def test_pools_of_known_sizes_take_several_lines_through_a_stage(
    case: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, strides, padding, image, rows = KNOWN[case]
    monkeypatch.setitem(CASES, case, (size, strides, (1, 1), padding))
    taken = []
    whole = line_stages.Window.written
    monkeypatch.setattr(line_stages.Window, "written", lambda w, f: taken.append(w.rows) or whole(w, f))
    x = relay.var("x", shape=(1, 2, *image))
    pool = relay.nn.max_pool2d if kind == "max" else relay.nn.avg_pool2d
    made = relay.nn.relu(pool(x, size, strides, (1, 1), padding))
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], made), "native"), "cpu")
    values = np.random.default_rng(0).uniform(-60, 60, (1, 2, *image)).astype("float32")
    result = np.maximum(expected(values, kind, case), 0)
    np.testing.assert_allclose(machine.run(values).numpy(), result, rtol=1e-5, atol=1e-5)
    assert set(taken) == {rows}


def test_a_window_whose_test_of_the_edges_is_in_the_sum_is_left_alone() -> None:
    n = tvm.tirx.Var("n", "int64")

    def sums(x: te.Tensor, n: tvm.tirx.Expr) -> te.Tensor:
        k = te.reduce_axis((0, 3), "k")

        def element(i: tvm.tirx.Expr, j: tvm.tirx.Expr) -> tvm.tirx.Expr:
            at = 2 * j + k - 1
            inside = tvm.tirx.all(at >= 0, at < n)
            return te.sum(tvm.tirx.if_then_else(inside, x(i, at), tvm.tirx.const(0, "float32")), axis=k)

        return te.compute([4, tvm.tirx.floordiv(n, 2)], element, name="sums")

    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([4, n], "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit_te(sums, x, n))
    machine = vmkit.VirtualMachine(vmkit.compile(builder.get()), "cpu")
    for size in (8, 37):
        values = np.arange(4 * size, dtype="float32").reshape(4, size)
        whole = np.pad(values, ((0, 0), (1, 1)))
        expected = sum(whole[:, at : at + size // 2 * 2 : 2] for at in range(3))
        np.testing.assert_array_equal(machine.run(values).numpy(), expected)
