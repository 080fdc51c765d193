"""Pools of large windows along one axis after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import optimize, relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Op, post_order

n = relay.Any()

# What is made of (pool, its attributes, shape): of how many pools.
POOLS: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...], int]] = {
    "max": (nn.max_pool2d, {"pool_size": 5, "padding": 2}, (1, 3, 9, 28), 2),
    "max, rows of 20": (nn.max_pool2d, {"pool_size": (5, 7), "padding": (2, 1, 3, 2)}, (2, 3, 11, 20), 2),
    "max, sizes of data": (nn.max_pool2d, {"pool_size": (6, 5), "padding": 1, "ceil_mode": True}, (n, 2, n, n), 2),
    "max, channels last": (nn.max_pool2d, {"pool_size": 9, "padding": 4, "layout": "NHWC"}, (1, 8, 7, 16), 2),
    "max, by 2": (nn.max_pool2d, {"pool_size": 8, "strides": 2, "dilation": (1, 2), "padding": 3}, (1, 2, 17, 30), 2),
    "mean": (nn.avg_pool2d, {"pool_size": 5, "padding": (1, 2, 2, 1)}, (1, 3, 9, 14), 2),
    "mean with padding": (
        nn.avg_pool2d,
        {"pool_size": 6, "padding": 2, "strides": (1, 2), "count_include_pad": True, "ceil_mode": True},
        (n, 3, n, n),
        2,
    ),
    "mean of cubes": (nn.avg_pool3d, {"pool_size": 3, "padding": 1, "dilation": 2}, (1, 2, 6, 7, 8), 3),
    "max of small windows": (nn.max_pool2d, {"pool_size": 3, "padding": 1}, (1, 3, 9, 28), 1),
    "max, far apart": (nn.max_pool2d, {"pool_size": 5, "strides": 5}, (1, 3, 15, 25), 1),
    "max along one axis": (nn.max_pool2d, {"pool_size": (1, 9)}, (1, 3, 9, 28), 1),
}


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_keeps_its_values_and_type(name: str) -> None:
    pool, attributes, shape, count = POOLS[name]
    x = relay.var("x", shape=shape)
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x], pool(x, **attributes))}))
    made = transform.InferType()(optimize.SeparatePools()(mod))
    assert len(pools_of(made)) == count
    assert str(made["main"].ret_type) == str(mod["main"].ret_type) or n in shape
    data = np.random.default_rng(0).standard_normal([11 + axis if d is n else d for axis, d in enumerate(shape)])
    with vmkit.PassContext(disabled_pass=["SeparatePools"]):
        plain = vmkit.VirtualMachine(vmkit.compile(mod, "llvm"))
    result = vmkit.VirtualMachine(vmkit.compile(mod, "native")).run(data.astype("float32")).numpy()
    np.testing.assert_allclose(result, plain.run(data.astype("float32")).numpy(), rtol=2e-6, atol=1e-6)


def test_pools_of_pools_are_separated_and_means_of_what_is_rounded_are_not() -> None:
    x, half = relay.var("x", shape=(1, 4, 9, 9)), relay.var("half", shape=(1, 4, 9, 9), dtype="float16")
    twice = nn.max_pool2d(nn.max_pool2d(x, 5, padding=2), 5, padding=2)
    both = relay.Tuple([twice, nn.avg_pool2d(half, 5), nn.max_pool2d(half, 5)])
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x, half], both)}))
    assert len(pools_of(optimize.SeparatePools()(mod))) == 4 + 1 + 2


def pools_of(mod: tvm.IRModule) -> list[Call]:
    nodes = post_order(mod["main"])
    return [each for each in nodes if isinstance(each, Call) and isinstance(each.op, Op) and "pool" in each.op.name]
