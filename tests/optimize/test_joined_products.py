"""Products of rows that go on in several tensors: which concatenations they take the place of, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.optimize import UsePackedGemm
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.transform import InferType

NAME = "nn.contrib_packed_gemm"
CHANNELS = (20, 16, 36)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def operators(function: relay.Function, **options: Any) -> list[str]:
    mod = UsePackedGemm(**{"lanes": 8, "registers": 16, **options})(InferType()(tvm.IRModule({"main": function})))
    calls = [node.op.name for node in post_order(mod["main"]) if isinstance(node, relay.Call)]
    return [name for name in calls if name in (NAME, "concatenate", "nn.conv2d")]


def network(
    batch: Any, units: tuple[int, ...] = (24, 40), channels: tuple[int, ...] = CHANNELS, ending: str = ""
) -> relay.Function:
    """Return products of one concatenation, of which the first adds a residual."""
    parts = [relay.var(f"x{at}", shape=(batch, 5, 7, count)) for at, count in enumerate(channels)]
    other = relay.var("other", shape=(batch, 5, 7, units[0]))
    joined = relay.concatenate(parts, axis=-1)
    made = []
    for at, count in enumerate(units):
        weight = relay.const(numbers(1, 1, sum(channels), count, seed=count) / 8)
        made.append(relay.nn.conv2d(joined, weight, data_layout="NHWC", kernel_layout="HWIO"))
        made[at] = relay.add(made[at], relay.const(numbers(count, seed=1)))
    made[0] = relay.nn.relu(relay.add(made[0], other))
    made += [relay.nn.relu(joined)] if ending == "read as it is" else []
    return relay.Function([*parts, other], relay.Tuple(made))


@pytest.mark.parametrize("target", ["llvm", "llvm -mattr=+avx2,+fma"])
@pytest.mark.parametrize("is_known", [True, False])
def test_products_read_what_was_joined(is_known: bool, target: str) -> None:
    function = network(2 if is_known else tvm.tirx.Var("n", "int64"))
    assert operators(function) == [NAME, NAME]
    parts = [numbers(2, 5, 7, count, seed=count) for count in CHANNELS]
    other, data = numbers(2, 5, 7, 24, seed=2), np.concatenate(parts, axis=-1).astype("float64")
    results = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function}), target), "cpu").run(*parts, other)
    sums = [data @ (numbers(72, n, seed=n) / 8) + numbers(n, seed=1) for n in (24, 40)]
    np.testing.assert_allclose(results[0].numpy(), np.maximum(sums[0] + other, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(results[1].numpy(), sums[1], rtol=1e-4, atol=1e-5)


def test_tensors_are_joined_where_something_else_reads_them_or_their_rows_are_short() -> None:
    joined = [NAME, NAME, "concatenate"]
    assert sorted(operators(network(2, ending="read as it is"))) == sorted(joined)
    assert sorted(operators(network(2, channels=(20, 12)))) == sorted(joined)
    assert sorted(operators(network(2, channels=(16,) * 5))) == sorted(joined)
    assert sorted(operators(network(2), shares_kernels=True)) == sorted(joined)
    stays = operators(network(2, units=(24, 3)))  # whose second one is no such product
    assert sorted(stays) == sorted([NAME, "concatenate", "nn.conv2d"])


@pytest.mark.parametrize(
    ("sizes", "more", "options"),
    [
        ((4, 8), (2, 7), {}),  # a tensor that is no row longer
        ((4, 8), (3, 8), {}),  # other rows
        ((4, 8), (1, 2, 8), {}),
        ((4, 4), (2, 4), {}),  # less than the weight
        ((12, 0), (2, 0), {}),
        ((4, 8), (2, 8), {"is_shared": True}),
        ((4, 8), (2, 8), {"kernel_size": [1, 1]}),
    ],
)
def test_data_that_do_not_fit_are_refused(
    sizes: tuple[int, ...], more: tuple[int, ...], options: dict[str, Any]
) -> None:
    data, weight = relay.var("x", shape=(2, sizes[0])), relay.const(numbers(1, 12, 8))
    call = build(NAME, data, weight, relay.var("y", shape=more), lanes=8, units=8, joined=list(sizes), **options)
    with pytest.raises(TypeCheckError):
        InferType()(tvm.IRModule({"main": relay.Function(list(relay.analysis.free_vars(call)), call)}))


def test_rows_that_go_on_are_as_many() -> None:
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("m", "int64")
    data, more = relay.var("x", shape=(n, 4)), relay.var("y", shape=(m, 8))
    weight = numbers(1, 12, 8)
    call = build(NAME, data, relay.const(weight), more, lanes=8, units=8, joined=[4, 8])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([data, more], call), "llvm"), "cpu")
    x, y = numbers(3, 4), numbers(3, 8, seed=1)
    np.testing.assert_allclose(machine.run(x, y).numpy(), np.hstack([x, y]) @ weight[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(Exception, match="more data is 2, expected 3"):
        machine.run(x, y[:2])
