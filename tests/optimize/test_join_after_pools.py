"""Pools of joined channels: which become pools of what was joined, and that they keep their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.optimize import JoinAfterPools
from vmkit.relay import nn
from vmkit.relay.ir.visit import post_order
from vmkit.relay.transform import InferType

POOLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "max": (nn.max_pool2d, {"pool_size": 3, "strides": 2, "ceil_mode": True}),
    "max, padded": (nn.max_pool2d, {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0)}),
    "mean": (nn.avg_pool2d, {"pool_size": 2, "strides": 2}),
    "mean, padded": (nn.avg_pool2d, {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": True}),
}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def network(pool: str, channels: tuple[int, ...] = (16, 32), batch: Any = 2, **options: Any) -> tuple[Any, Any]:
    """Return the variables of images, and a pool of them joined."""
    what, attributes = POOLS[pool]
    images = [relay.var(f"x{at}", shape=(batch, 9, 7, count)) for at, count in enumerate(channels)]
    joined = relay.concatenate(images, axis=3)
    return images, (joined, what(joined, **{"layout": "NHWC", **attributes, **options}))


def order(function: relay.Function, lanes: int = 16) -> list[str]:
    mod = JoinAfterPools(lanes=lanes)(InferType()(tvm.IRModule({"main": function})))
    InferType()(mod)
    return [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]


@pytest.mark.sweep
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("is_known", [True, False])
def test_channels_are_joined_behind_a_pool(pool: str, is_known: bool) -> None:
    images, (_, pooled) = network(pool, batch=2 if is_known else relay.Any())
    function, name = relay.Function(images, pooled), POOLS[pool][0](images[0]).op.name
    assert order(function) == [name, name, "concatenate"]
    data = [numbers(2, 9, 7, 16), numbers(2, 9, 7, 32, seed=1)]
    with vmkit.PassContext(disabled_pass=["JoinAfterPools"]):
        plain = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "llvm"), "cpu").run(*data)
    result = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), "native"), "cpu").run(*data)
    np.testing.assert_allclose(result.numpy(), plain.numpy(), rtol=1e-6, atol=1e-6)


def test_pools_of_what_others_read_and_of_parts_of_vectors_stay() -> None:
    images, (joined, pooled) = network("max")
    before = ["concatenate", "nn.max_pool2d"]
    assert order(relay.Function(images, pooled), lanes=64) == before
    assert order(relay.Function(images, relay.Tuple([pooled, joined]))) == before
    assert order(relay.Function(images, relay.Tuple([pooled, nn.relu(joined)])))[:2] == before
    images, (_, pooled) = network("max", strides=1)
    assert order(relay.Function(images, pooled)) == before
    images, (_, pooled) = network("max", layout="NCHW")
    assert order(relay.Function(images, pooled)) == before
    images, (_, pooled) = network("max", channels=(16, 24))
    assert order(relay.Function(images, pooled)) == before
