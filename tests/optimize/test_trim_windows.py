"""Windows that see nothing but padding at their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.transform.passes import after, assert_becomes
from vmkit import optimize, relay
from vmkit.relay import nn
from vmkit.relay.ir import Constant, post_order

n = relay.Any()

# The shape of the data, that of the weight, attributes, and the shape of what is left of the weight.
CONVOLUTIONS: dict[str, tuple[Any, tuple[Any, ...], tuple[int, ...], dict[str, Any], tuple[int, ...]]] = {
    "one element": (nn.conv2d, (2, 3, 1, 1), (4, 3, 3, 3), {"padding": 1}, (4, 3, 1, 1)),
    "one row": (nn.conv2d, (2, 3, 1, 7), (4, 3, 3, 3), {"padding": 1}, (4, 3, 1, 3)),
    "by 2 on 2": (nn.conv2d, (1, 3, 2, 2), (4, 3, 3, 3), {"padding": 1, "strides": 2}, (4, 3, 2, 2)),
    "far apart": (nn.conv2d, (1, 3, 5, 14), (4, 3, 3, 3), {"padding": 6, "dilation": 6}, (4, 3, 1, 3)),
    "more padding": (
        nn.conv2d,
        (1, 2, 2, 3),
        (4, 2, 5, 3),
        {"padding": (5, 1, 6, 2), "dilation": (2, 1)},
        (4, 2, 3, 3),
    ),
    "less padding than distance": (
        nn.conv2d,
        (1, 2, 2, 3),
        (4, 2, 2, 3),
        {"padding": (1, 1, 0, 1), "dilation": (2, 1)},
        (4, 2, 2, 3),
    ),
    "uneven": (nn.conv2d, (1, 2, 2, 9), (4, 2, 7, 3), {"padding": (5, 1, 1, 0)}, (4, 2, 3, 3)),
    "in groups": (nn.conv2d, (1, 4, 1, 2), (4, 1, 3, 3), {"padding": 1, "groups": 4}, (4, 1, 1, 3)),
    "channels last": (
        nn.conv2d,
        (3, 1, 1, 4),
        (3, 3, 4, 8),
        {"padding": 1, "data_layout": "NHWC", "kernel_layout": "HWIO"},
        (1, 1, 4, 8),
    ),
    "any batch": (nn.conv2d, (n, 3, 1, 1), (4, 3, 3, 3), {"padding": 1}, (4, 3, 1, 1)),
    "any size": (nn.conv2d, (1, 3, n, 1), (4, 3, 3, 3), {"padding": 1}, (4, 3, 3, 1)),
    "rows": (nn.conv1d, (1, 3, 2), (4, 3, 5), {"padding": 2}, (4, 3, 3)),
    "cubes": (nn.conv3d, (1, 3, 1, 2, 4), (4, 3, 3, 3, 3), {"padding": 1}, (4, 3, 1, 3, 3)),
    "large": (nn.conv2d, (1, 3, 9, 9), (4, 3, 3, 3), {"padding": 1}, (4, 3, 3, 3)),
    "nothing but padding": (nn.conv2d, (1, 3, 1, 1), (4, 3, 2, 2), {"padding": 2, "strides": 3}, (4, 3, 2, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_what_sees_data_is_left_and_values_stay(name: str) -> None:
    convolution, shape, filters, attributes, left = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=shape)
    weight = relay.const(rng.integers(-9, 9, filters).astype("float32"))
    is_last = "kernel_layout" in attributes
    attributes = {"kernel_size": filters[:2] if is_last else filters[2:], "channels": left[-is_last], **attributes}
    before = relay.Function([x], convolution(x, weight, **attributes))
    trimmed = after(optimize.TrimWindows(), before)
    assert [c.data.shape for c in post_order(trimmed) if isinstance(c, Constant)] == [left]
    data = rng.integers(-9, 9, [5 if d is n else d for d in shape]).astype("float32")
    with vmkit.PassContext(disabled_pass=["TrimWindows"]):
        plain = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": before}), "llvm"))
    for target in ("llvm", "native"):
        machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": before}), target))
        np.testing.assert_array_equal(machine.run(data).numpy(), plain.run(data).numpy())


def test_equal_weights_stay_one() -> None:
    x, weight = relay.var("x", shape=(1, 4, 1, 1)), relay.const(np.ones((4, 4, 3, 3), "float32"))
    both = nn.conv2d(nn.conv2d(x, weight, kernel_size=3, padding=1), weight, kernel_size=3, padding=1)
    constants = {c for c in post_order(after(optimize.TrimWindows(), both, x)) if isinstance(c, Constant)}
    assert [c.data.shape for c in constants] == [(4, 4, 1, 1)]


def test_weights_that_are_computed_stay() -> None:
    x, weight = relay.var("x", shape=(1, 4, 1, 1)), relay.var("weight", shape=(4, 4, 3, 3))
    before = nn.conv2d(x, weight, kernel_size=3, padding=1)
    assert_becomes(optimize.TrimWindows(), before, before, x, weight)
