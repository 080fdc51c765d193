"""Sorts in C: the same order as on the virtual machine, without further memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from tests.mlf.built import FLAGS, build
from vmkit import relay

RNG = np.random.default_rng(5)
CHECKED = (*FLAGS, "-fsanitize=undefined", "-fno-sanitize-recover")


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [
        ((2, 5, 3), 1, "float32"),
        pytest.param((3, 40), -1, "int64", marks=pytest.mark.nightly),
        pytest.param((4, 1), 1, "uint8", marks=pytest.mark.nightly),
        pytest.param((0, 3), 0, "float16", marks=pytest.mark.nightly),
        pytest.param((9,), 0, "float16", marks=pytest.mark.nightly),
    ],
)
def test_sorts_and_positions_are_the_machines(shape: tuple[int, ...], axis: int, dtype: str, tmp_path: Path) -> None:
    x = relay.var("x", shape=shape, dtype=dtype)
    made = [
        relay.sort(x, axis=axis),
        relay.sort(x, axis=axis, is_ascend=False),
        relay.argsort(x, axis=axis),
        relay.argsort(x, axis=axis, is_ascend=False, dtype="int64"),
    ]
    if shape[axis] > 1:
        made += [relay.topk(x, k=2, axis=axis, ret_type=kind) for kind in ("values", "indices")]
    function = relay.Function([x], relay.Tuple(made))
    data = RNG.integers(0, 9, shape).astype(dtype)  # many are equal
    if dtype.startswith("float") and data.size > 3:
        data.flat[:3] = np.nan, -np.inf, -0.0
    vmkit.mlf.export(function, tmp_path / "sorts.tar")
    got = build(tmp_path / "sorts.tar", flags=CHECKED).run(data)
    machine = vmkit.VirtualMachine(vmkit.compile(function, "llvm"), "cpu", num_threads=1)
    for one, expected in zip(got, machine.run(data), strict=True):
        np.testing.assert_array_equal(one, expected.numpy().ravel())
    np.testing.assert_array_equal(got[2].reshape(shape), np.argsort(data, axis, kind="stable"))


def test_long_lines_are_sorted_in_place(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 5000))
    facts = vmkit.mlf.export(relay.Function([x], relay.argsort(x)), tmp_path / "long.tar")
    data = RNG.permutation(10_000).reshape(2, 5000).astype("float32")
    (got,) = build(tmp_path / "long.tar").run(data)
    np.testing.assert_array_equal(got.reshape(2, 5000), np.argsort(data))
    main = facts["modules"]["default"]["memory"]["functions"]["main"][0]
    assert main["workspace_size_bytes"] == data.nbytes  # the integers that floats are compared as
