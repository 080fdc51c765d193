"""Windows whose elements are far apart: parts of them in the padding are left out, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.optimize import UsePackedGemm
from vmkit.relay import Call
from vmkit.relay.ir.visit import post_order
from vmkit.relay.transform import InferType

TARGET = "llvm -mattr=+avx2,+fma -num-cores=2"
_RANDOM = np.random.default_rng(0)


def _function(shape: tuple[Any, ...], weight: np.ndarray, **options: Any) -> relay.Function:
    x = relay.var("x", shape=shape)
    y = relay.nn.conv2d(x, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO", **options)
    return relay.Function([x], y)


def _expected(data: np.ndarray, weight: np.ndarray, padding: Any, strides: Any, dilation: Any) -> np.ndarray:
    top, left, bottom, right = padding
    padded = np.pad(data.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape, dilation, strict=False)]
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=(1, 2))
    windows = windows[:, :: strides[0], :: strides[1], :, :: dilation[0], :: dilation[1]]
    return np.einsum("nyxcij,ijco->nyxo", windows, weight.astype("float64"))


def _zeros(function: relay.Function) -> list[list[int]]:
    mod = UsePackedGemm(lanes=8, registers=16)(InferType()(tvm.IRModule({"main": function})))
    calls = [n for n in post_order(mod["main"]) if isinstance(n, Call) and n.op.name == "nn.contrib_packed_gemm"]
    return [[int(n) for n in call.attrs.zeros] for call in calls]


@pytest.mark.parametrize("known", ["all", "all but the batch", "channels"])
@pytest.mark.parametrize(
    ("height", "width", "kernel", "padding", "strides", "dilation"),
    [
        (17, 19, (3, 3), (6, 6, 6, 6), (1, 1), (6, 6)),
        (5, 4, (3, 3), (7, 7, 7, 7), (1, 1), (7, 7)),
        (1, 1, (3, 3), (2, 2, 2, 2), (1, 1), (2, 2)),
        (13, 30, (3, 3), (9, 0, 2, 11), (1, 1), (5, 4)),
        (16, 21, (3, 5), (4, 8, 4, 8), (2, 3), (4, 4)),
        (9, 40, (5, 1), (6, 0, 6, 0), (1, 1), (3, 2)),
        (9, 40, (1, 5), (0, 20, 0, 20), (1, 1), (1, 9)),
        (11, 9, (3, 3), (20, 20, 20, 20), (1, 1), (4, 4)),
    ],
)
def test_sums_are_those_over_the_padded_data(
    height: int,
    width: int,
    kernel: tuple[int, int],
    padding: tuple[int, ...],
    strides: tuple[int, int],
    dilation: tuple[int, int],
    known: str,
) -> None:
    weight = (_RANDOM.normal(size=(*kernel, 24, 40)) / 8).astype("float32")
    sizes: list[Any] = [tvm.tirx.Var(name, "int64") for name in "nhw"]
    shape = {"all": [3, height, width], "all but the batch": [sizes[0], height, width], "channels": sizes}[known]
    function = _function((*shape, 24), weight, padding=padding, strides=strides, dilation=dilation)
    assert _zeros(function) == [list(padding)]
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    data = _RANDOM.normal(size=(3, height, width, 24)).astype("float32")
    expected = _expected(data, weight, padding, strides, dilation)
    np.testing.assert_allclose(machine.run(data).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_is_no_number_is_found_by_the_windows_that_reach_it() -> None:
    weight = (_RANDOM.normal(size=(3, 3, 24, 40)) / 8).astype("float32")
    options = {"padding": (4, 4, 4, 4), "strides": (1, 1), "dilation": (4, 4)}
    function = _function((1, 9, 10, 24), weight, **options)
    data = _RANDOM.normal(size=(1, 9, 10, 24)).astype("float32")
    data[0, 0, 0, 3], data[0, 8, 9, 5], data[0, 4, 0, 0] = np.nan, np.inf, 3e38
    machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), TARGET), "cpu")
    with np.errstate(invalid="ignore", over="ignore"):
        expected = _expected(data, weight, **options).astype("float32")
    made = machine.run(data).numpy()
    np.testing.assert_array_equal(np.isnan(made), np.isnan(expected))
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-3)


def test_weights_without_bounds_and_near_windows_keep_their_zeros() -> None:
    weight = _RANDOM.normal(size=(3, 3, 24, 40)).astype("float32")
    assert _zeros(_function((1, 9, 9, 24), weight, padding=(1, 1, 1, 1), strides=(2, 2))) == [[0] * 4]
    weight[1, 1, 2, 3] = np.inf
    assert _zeros(_function((1, 9, 9, 24), weight, padding=(4, 4, 4, 4), dilation=(4, 4))) == [[0] * 4]
