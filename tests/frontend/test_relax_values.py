"""What follows from constants while a program is built: as numpy has it, and nothing where there is no value."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from vmkit.frontend.relax_values import value_of

SIZES, OTHERS = np.int32([7, -7, 12, 5]), np.int32([2, 2, -5, 5])
GRID = np.arange(24, dtype="int64").reshape(2, 3, 4)
X, Y, G = relax.const(SIZES), relax.const(OTHERS), relax.const(GRID)


def value(expr: relax.Expr) -> np.ndarray | None:
    """Return what is known of an expression, whose operators are bound to variables as in a program."""
    builder = relax.BlockBuilder()
    parameter = relax.Var("p", relax.TensorType([4], "int32"))
    with builder.function("main", [parameter]):
        with builder.dataflow():
            found = value_of(builder.emit(expr), builder.lookup_binding)
            result = builder.emit_output(parameter)
        builder.emit_func_output(result)
    return found


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (relax.op.multiply(relax.op.add(X, Y), X), np.add(SIZES, OTHERS) * SIZES),
        (relax.op.maximum(relax.op.subtract(X, Y), relax.op.negative(X)), np.maximum(SIZES - OTHERS, -SIZES)),
        (relax.op.divide(X, Y), [3, -3, -2, 1]),
        (relax.op.floor_divide(X, Y), [3, -4, -3, 1]),
        (relax.op.floor_mod(X, Y), [1, 1, -3, 0]),
        (relax.op.strided_slice(X, [0], [-3], [100], [2]), [-7, 5]),
        (relax.op.take(G, relax.const(np.int64([2, 0])), 1), GRID[:, [2, 0]]),
        (relax.TupleGetItem(relax.op.split(G, [1, 3], 2), 1), GRID[..., 1:3]),
        (relax.TupleGetItem(relax.op.split(X, 2, 0), 1), SIZES[2:]),
        (relax.op.concat([relax.op.astype(X, "int64"), relax.op.arange(0, 6, 2, "int64")], 0), [*SIZES, 0, 2, 4]),
        (relax.op.prod(relax.op.permute_dims(G), [0], True), GRID.T.prod(0, keepdims=True)),
        (relax.op.squeeze(relax.op.expand_dims(relax.op.reshape(G, [6, 4]), 0), [0]), GRID.reshape(6, 4)),
    ],
)
def test_values_that_follow_from_constants(expr: relax.Expr, expected: np.ndarray) -> None:
    found = value(expr)
    assert found is not None
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "expr",
    [
        relax.op.floor_divide(X, relax.const(np.int32([1, 0, 1, 1]))),
        relax.op.divide(X, relax.const(np.int32(0))),
        relax.op.take(G, relax.const(np.int64([3])), 1),
        relax.op.add(X, relax.Var("q", relax.TensorType([4], "int32"))),
        relax.op.cumsum(X),
    ],
)
def test_what_has_no_value(expr: relax.Expr) -> None:
    """Division by zero and places that are not there, of which TVM would die, parameters, and other operators."""
    assert value(expr) is None
