"""What is computed from looked-up rows is computed from the table, and nothing else is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx

import vmkit
from vmkit import optimize, relay
from vmkit.relay import nn, transform
from vmkit.relay.ir import Call, Expr, Op, post_order

n, t = (tirx.Var(name, "int64") for name in "nt")
ROWS, WIDTH, UNITS = 7, 4, 6
random = np.random.default_rng(0)
TABLE = relay.const(random.standard_normal((ROWS, WIDTH)).astype("float32"))
MATRIX = relay.const(random.standard_normal((UNITS, WIDTH)).astype("float32"))
CODES = relay.const(random.standard_normal((UNITS, ROWS)).astype("float32"))
HALF, HALF_CODES = (relay.const(each.data.numpy().astype("float16")) for each in (MATRIX, CODES))
BIAS = relay.const(random.standard_normal((1, 1, UNITS)).astype("float32"))
IDS = relay.var("ids", shape=(n, t), dtype="int64")
COLUMN = relay.reshape(IDS, [n, t, 1], allowzero=True)


def rows(**attributes: Any) -> Expr:
    return relay.take(TABLE, IDS, **({"axis": 0} | attributes))


def projected(x: Expr, weight: Expr, inner: int) -> Expr:
    """Return a product as the importer makes it: rows as one matrix, and back."""
    flat = nn.dense(relay.reshape(x, [n * t, inner], allowzero=True), weight)
    return relay.reshape(flat, [n, t, UNITS], allowzero=True)


def gelu(x: Expr) -> Expr:
    return relay.multiply(x, relay.sigmoid(relay.multiply(relay.const(1.702), x)))


def one_hot(numbers: np.ndarray) -> Expr:
    return relay.cast(relay.equal(COLUMN, relay.const(numbers.astype("int64"))), "float32")


COUNTED = np.arange(ROWS).reshape(1, 1, ROWS)
FOLDED = {
    "activation": gelu(rows()),
    "projection and bias": relay.add(projected(rows(), MATRIX, WIDTH), BIAS),
    "projection by 16 bits": projected(rows(), relay.cast(HALF, "float32"), WIDTH),
    "one-hot codes by 16 bits": nn.dense(
        relay.one_hot(IDS, relay.const(1.0), relay.const(0.0), ROWS, -1, "float32"), relay.cast(HALF_CODES, "float32")
    ),
    "projection of one-hot codes": gelu(relay.add(projected(one_hot(COUNTED), CODES, ROWS), BIAS)),
    "one_hot": nn.dense(relay.one_hot(IDS, relay.const(1.0), relay.const(0.0), ROWS, -1, "float32"), CODES),
}
BYTES = relay.take(relay.const(np.arange(ROWS * WIDTH, dtype="uint8").reshape(ROWS, WIDTH)), IDS, axis=0)
# As int32 the table is larger by more than constants grow when they are folded, and would be computed in each run.
WIDE = relay.take(relay.const(np.arange(1 << 19, dtype="uint32").astype("uint8").reshape(1 << 10, 1 << 9)), IDS, axis=0)
KEPT = {
    "a table that would grow": relay.multiply(relay.cast(WIDE, "float32"), relay.const(0.5)),
    "numbers packed in bytes": relay.bitwise_and(
        relay.right_shift(BYTES, relay.const(4, "uint8")), relay.const(15, "uint8")
    ),
    "rows counted around": gelu(rows(mode="wrap")),
    "columns": gelu(rows(axis=1)),
    "a value for each position": relay.add(rows(), relay.var("p", shape=(t, 1))),
    "rows of two look-ups": relay.add(rows(), relay.take(TABLE, relay.negative(IDS), axis=0)),
    "codes out of order": projected(one_hot(COUNTED[..., ::-1]), CODES, ROWS),
    "an infinite weight": projected(one_hot(COUNTED), relay.const(np.full((UNITS, ROWS), np.inf, "float32")), ROWS),
    "a table with a row for each position": relay.add(rows(), relay.const(np.ones((3, WIDTH), "float32"))),
}


@pytest.mark.parametrize("name", FOLDED)
def test_a_constant_table_is_looked_up_and_values_are_kept(name: str) -> None:
    function = relay.Function([IDS], FOLDED[name])
    arithmetic = {"nn.dense", "multiply", "sigmoid", "add", "cast", "one_hot"}
    assert not arithmetic & set(operators(folded(function)))
    compare(function)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_of_rows_alone_is_left(name: str) -> None:
    function = relay.Function(relay.analysis.free_vars(KEPT[name]), KEPT[name])
    assert operators(folded(function)) == operators(transform.InferType()(tvm.IRModule({"main": function}))["main"])


def test_a_table_that_would_be_too_large_is_left() -> None:
    function = relay.Function([IDS], projected(rows(), MATRIX, WIDTH))
    assert "nn.dense" in operators(folded(function, largest=ROWS * UNITS * 4 - 1))
    assert "nn.dense" not in operators(folded(function, largest=ROWS * UNITS * 4))


def folded(function: relay.Function, **options: Any) -> relay.Function:
    mod = optimize.FoldLookups(**options)(transform.InferType()(tvm.IRModule({"main": function})))
    return transform.FoldConstant()(mod)["main"]


def operators(function: relay.Function) -> list[str]:
    return sorted(e.op.name for e in post_order(function) if isinstance(e, Call) and isinstance(e.op, Op))


def compare(function: relay.Function) -> None:
    """Run a program as the compiler optimises it and as it is, also with numbers that the table does not have."""
    mod = tvm.IRModule({"main": function})
    with tvm.transform.PassContext(opt_level=0):
        plain = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    machine = vmkit.VirtualMachine(vmkit.compile(mod), "cpu")
    for shape in ((1, 1), (3, 5), (0, 2)):
        ids = np.random.default_rng(1).integers(-3, ROWS + 3, shape)
        np.testing.assert_allclose(machine.run(ids).numpy(), plain.run(ids).numpy(), rtol=1e-5, atol=1e-6)


def test_dense_layers_of_other_data_are_not_copied() -> None:
    weight = np.ones((1024, 1024), "float32")
    x = relay.var("x", shape=(2, 1024))
    mod = transform.InferType()(tvm.IRModule({"main": relay.Function([x], nn.dense(x, relay.const(weight)))}))
    tracemalloc.start()
    optimize.FoldLookups()(mod)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < weight.nbytes // 2
