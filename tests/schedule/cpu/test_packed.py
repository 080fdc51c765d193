"""Kernels with packed weights give what plain ones do, whatever tiles and blocks do not divide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from vmkit import optimize, relay
from vmkit.compiler.stages import fused_kernels
from vmkit.relay import transform
from vmkit.relay.ir import Call, post_order
from vmkit.schedule import cpu as rules
from vmkit.target import canonical_target

RNG = np.random.default_rng(0)
n = tirx.Var("n", "int64")


def constant(*shape: int) -> relay.Constant:
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def conv(channels: int, inputs: int, size: int, kernel: int = 3, **attrs: Any) -> Any:
    x = relay.var("x", shape=(n, size, size, inputs))
    weight = constant(kernel, kernel, inputs // attrs.get("groups", 1), channels)
    made = relay.nn.conv2d(x, weight, data_layout="NHWC", kernel_layout="HWIO", **attrs)
    return relay.Function([x], relay.nn.relu(relay.add(made, constant(channels)))), (2, size, size, inputs)


def dense(units: int, *shape: Any) -> Any:
    x = relay.var("x", shape=(*shape, 24))
    sizes = [3 if d is n else d for d in shape]
    return relay.Function([x], relay.nn.relu(relay.nn.dense(x, constant(units, 24)))), (*sizes, 24)


PROGRAMS = {
    "3x3, the tile divides": (conv(64, 8, 14, padding=(1, 1)), True),
    "3x3, the tile overlaps": (conv(32, 8, 13, padding=(1, 1)), True),
    "1x1, one vector": (conv(48, 16, 9, kernel=1), True),
    "half a vector": (conv(24, 3, 27, kernel=7, strides=(2, 2), padding=(3, 3)), True),
    "a quarter": (conv(12, 4, 5), True),
    "dilated": (conv(16, 4, 17, dilation=(2, 2)), True),
    "groups": (conv(64, 16, 7, groups=4, padding=(1, 1)), True),
    "one position": (conv(32, 4, 3), True),
    "dense": (dense(64, n), True),
    "dense of one row": (dense(16, 1), True),
    "dense of rank 3": (dense(32, n, 5), True),
    "blocks that are filled up": (conv(10, 4, 8), True),
    "depthwise": (conv(16, 16, 8, groups=16), False),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_packed_weights_give_the_same(name: str) -> None:
    (function, shape), is_packed = PROGRAMS[name]
    mod = transform.InferType()(tvm.IRModule({"main": function}))
    packed = optimize.PackWeights(16)(mod)
    calls = [node for node in post_order(packed["main"]) if isinstance(node, Call)]
    layouts = [getattr(c.attrs, f, "") for c in calls for f in ("kernel_layout", "weight_layout")]
    assert any(layout.endswith(("o", "n")) for layout in layouts) == is_packed
    value = RNG.standard_normal(shape).astype("float32")
    with vmkit.PassContext(opt_level=0):
        expected = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(value).numpy()
    result = vmkit.VirtualMachine(vmkit.compile(packed, target="native")).run(value).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_a_tile_that_overlaps_tests_no_bounds_where_the_last_axis_is_one() -> None:
    target = canonical_target("llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3").primary
    x = relay.var("x", shape=(n, 17, 1, 4))
    made = relay.nn.conv2d(
        x, constant(5, 1, 4, 64), data_layout="NHWC", kernel_layout="HWIO", channels=64, kernel_size=(5, 1)
    )
    kernels = rules.schedule_kernels(fused_kernels(relay.Function([x], made), target), target)
    (text,) = [f.script() for v, f in kernels.functions.items() if v.name_hint.startswith("nn_conv2d")]
    assert "T.parallel" in text and "T.min" in text
    assert "T.where" not in text
