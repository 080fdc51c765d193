"""Rows of several axes are one row where they lie in memory so, and keep the values that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te, tirx, topi

import vmkit
from vmkit import relay
from vmkit.schedule.blocks import kernel_blocks
from vmkit.schedule.cpu.flattening import flattened_rows
from vmkit.schedule.expressions import known

n = tirx.Var("n", "int64")


def rows(result: te.Tensor, *given: te.Tensor, axes: int) -> list[list[int | None]]:
    """Return the sizes of the loops of each stage of a kernel whose rows are made one."""
    schedule = flattened_rows(s_tir.Schedule(te.create_prim_func([*given, result])), axes)
    blocks = kernel_blocks(schedule)
    return [[known(schedule.get(loop).extent) for loop in schedule.get_loops(block)] for block in blocks]


def test_rows_of_what_is_given_are_one() -> None:
    x, a = te.placeholder((n, 5, 9, 13), name="x"), te.placeholder((9, 13), name="a")
    stages = rows(topi.nn.layer_norm(x, a, a, [2, 3], 1e-5), x, a, axes=2)
    assert stages[0] == [None, 5, 1, 117]
    assert stages[-1] == [None, 5, 1, 117]


def test_rows_of_which_only_the_last_axes_lie_together_are_one_in_these() -> None:
    x, a = te.placeholder((n, 5, 9, 13), name="x"), te.placeholder((5,), name="a")
    k = [te.reduce_axis((0, size)) for size in (5, 9, 13)]
    total = te.compute((n,), lambda i: te.sum(x(i, *k), axis=k))
    stages = rows(te.compute(x.shape, lambda i, c, y, z: x[i, c, y, z] * total[i] + a[c]), x, a, axes=3)
    assert stages == [[None, 5, 1, 117], [None, 5, 1, 117]]


def test_rows_of_a_stage_stay_as_they_are() -> None:
    x = te.placeholder((n, 9, 13), name="x")
    k = [te.reduce_axis((0, size)) for size in (9, 13)]
    made = te.compute(x.shape, lambda *i: te.exp(x(*i)))
    total = te.compute((n,), lambda i: te.sum(made(i, *k), axis=k))
    stages = rows(te.compute(x.shape, lambda i, y, z: made[i, y, z] / total[i]), x, axes=2)
    assert stages == [[None, 9, 13]] * 3


@pytest.mark.parametrize("shape", [(2, 6, 13, 13), (1, 6, 3, 37), (2, 6, 7, 16), (2, 6, 1, 9)])
def test_normalised_images_of_any_size(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    values, gamma, beta = (random.standard_normal(s).astype("float32") for s in (shape, (6,), (6,)))

    def expected(groups: int) -> np.ndarray:
        rows = values.astype("float64").reshape(shape[0], groups, -1)
        normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
        return normal.reshape(shape) * gamma[:, None, None] + beta[:, None, None]

    for batch in (shape[0], relay.Any()):
        x = relay.var("x", shape=(batch, *shape[1:]))
        scale = [relay.const(gamma), relay.const(beta)]
        made = [relay.nn.instance_norm(x, *scale), relay.nn.group_norm(x, *scale, num_groups=2)]
        softmax = relay.exp(x) / relay.sum(relay.exp(x), [2, 3], keepdims=True)
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.Tuple([*made, softmax]))), "cpu")
        instance, group, shares = (each.numpy() for each in machine.run(values))
        np.testing.assert_allclose(instance, expected(6), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(group, expected(2), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(shares, np.exp(values) / np.exp(values).sum((2, 3), keepdims=True), rtol=1e-5)
