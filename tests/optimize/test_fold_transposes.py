"""Products read through the transposes of their operands, and shapes through those of tensors."""

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


def swapped(x: Any, *axes: int) -> Any:
    return relay.transpose(x, list(axes) or None)


PRODUCTS = {
    "dense": (lambda x, y: nn.dense(x, swapped(y)), [(n, 6), (6, n)], [(5, 6), (6, 7)], "nn.matmul"),
    "dense, both": (lambda x, y: nn.dense(swapped(x, 1, 0), swapped(y, -1, 0)), [(6, n), (6, 7)], [(6, 5), (6, 7)], 0),
    "matmul": (
        lambda x, y: nn.matmul(swapped(x), y, transpose_a=True),
        [(4, 6), (6, 7)],
        [(4, 6), (6, 7)],
        "nn.matmul",
    ),
    "matmul that is a dense": (lambda x, y: nn.matmul(x, swapped(y)), [(4, 6), (7, 6)], [(4, 6), (7, 6)], "nn.dense"),
    "batches": (
        lambda x, y: nn.batch_matmul(swapped(x, 0, 2, 1), swapped(y, 0, 2, 1)),
        [(n, 6, 5), (n, 6, 7)],
        [(3, 6, 5), (1, 6, 7)],
        "nn.batch_matmul",
    ),
}


def operators(mod: tvm.IRModule) -> list[str]:
    calls = [e for e in post_order(mod["main"].body) if isinstance(e, Call) and isinstance(e.op, Op)]
    return [call.op.name for call in calls]


def folded(variables: list[Any], body: Any) -> tvm.IRModule:
    mod = tvm.IRModule({"main": relay.Function(variables, body)})
    return optimize.FoldTransposes()(transform.InferType()(mod))


@pytest.mark.parametrize(("units", "operator"), [(8, "nn.dense"), (7, "nn.matmul")])
def test_a_layer_whose_weight_will_be_packed_stays_one(units: int, operator: str) -> None:
    x, weight = relay.var("x", shape=(6, n)), np.random.default_rng(units).standard_normal((units, 6)).astype("float32")
    mod = folded([x], nn.dense(swapped(x), relay.const(weight)))
    assert operators(mod)[-1] == operator
    machine = vmkit.VirtualMachine(vmkit.compile(mod, "native"))
    for rows in (1, 5):
        value = np.random.default_rng(rows).standard_normal((6, rows)).astype("float32")
        np.testing.assert_allclose(machine.run(value).numpy(), value.T @ weight.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PRODUCTS)
def test_product_of_transposed_is_product_of_another_form(name: str) -> None:
    build, types, shapes, operator = PRODUCTS[name]
    variables = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(types)]
    body = build(*variables)
    mod = folded(variables, body)
    assert operators(mod) == [operator or "nn.matmul"]
    values = [np.random.default_rng(i).standard_normal(shape).astype("float32") for i, shape in enumerate(shapes)]
    plain = tvm.IRModule({"main": relay.Function(variables, body)})
    results = []
    for each in (mod, plain):
        with tvm.transform.PassContext(opt_level=0):
            results.append(vmkit.VirtualMachine(vmkit.compile(each)).run(*values).numpy())
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-5)


def test_other_orders_of_axes_stay() -> None:
    x, y = relay.var("x", shape=(3, 5, 6)), relay.var("y", shape=(6, 3, 7))
    mod = folded([x, y], nn.batch_matmul(x, swapped(y, 1, 2, 0)))
    assert operators(mod) == ["transpose", "nn.batch_matmul"]


@pytest.mark.parametrize(
    ("moved", "order"),
    [
        (lambda x: swapped(x), [3, 2, 1, 0]),
        (lambda x: swapped(x, 0, -1, 1, 2), [0, 3, 1, 2]),
        (lambda x: relay.layout_transform(x, "NHWC", "NCHW"), [0, 3, 1, 2]),
    ],
)
def test_a_shape_is_read_of_what_is_not_copied_for_it(moved: Any, order: list[int]) -> None:
    x = relay.var("x", shape=(n, 5, n, 6))
    mod = folded([x], relay.shape_of(moved(x), "int64"))
    assert operators(mod) == ["shape_of", "take"]
    given = np.zeros((2, 5, 3, 6), "float32")
    made = vmkit.VirtualMachine(vmkit.compile(mod)).run(given).numpy()
    assert made.dtype == "int64" and made.tolist() == [given.shape[axis] for axis in order]


def test_a_shape_in_blocks_is_that_of_the_copy() -> None:
    x = relay.var("x", shape=(1, 8, n, 6))
    mod = folded([x], relay.shape_of(relay.layout_transform(x, "NCHW", "NCHW4c"), "int64"))
    assert operators(mod) == ["layout_transform", "shape_of"]


def test_a_pool_between_transposes_is_one_over_the_last_axis() -> None:
    first, last = [0, 3, 1, 2], [0, 2, 3, 1]
    x = relay.var("x", shape=(n, 7, n, 20), dtype="uint8")
    pool = nn.max_pool2d(swapped(x, *first), pool_size=(3, 2), strides=(2, 1), padding=(1, 0, 0, 1), ceil_mode=True)
    made = folded([x], swapped(pool, *last))
    assert operators(made) == ["nn.max_pool2d"] and made["main"].body.attrs.layout == "NHWC"
    data = np.random.default_rng(0).integers(0, 256, (2, 7, 9, 20)).astype("uint8")
    found, before = (
        vmkit.VirtualMachine(vmkit.compile(function, "native")).run(data).numpy()
        for function in (relay.Function([x], swapped(pool, *last)), relay.Function([x], pool))
    )
    np.testing.assert_array_equal(found, before.transpose(last))
    # Few channels, other orders, and what is read in the first order, too, stay.
    few = relay.var("x", shape=(2, 7, 8, 8))
    for variable, body in (
        (few, swapped(nn.avg_pool2d(swapped(few, *first), pool_size=(3, 3)), *last)),
        (x, swapped(nn.max_pool2d(swapped(x, *first), pool_size=(3, 3)), 0, 3, 2, 1)),
        (x, relay.Tuple([pool, swapped(pool, *last)])),
    ):
        assert operators(folded([variable], body)).count("transpose") == 2
