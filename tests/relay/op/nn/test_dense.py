"""Products of matrices agree with numpy, over known and unknown sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def test_dense_and_matmul_agree_with_numpy(dim: Any) -> None:
    x, w = var("x", shape=(dim(3), 4)), var("w", shape=(dim(5), 4))
    cube, square = var("cube", shape=(dim(3), dim(4), 4)), var("square", shape=(4, 4))
    table = {
        "dense": (nn.dense(x, w), lambda x, w, c, s: x @ w.T),
        "dense of 3 dimensions": (nn.dense(cube, square, units=4), lambda x, w, c, s: c @ s.T),
        "matmul": (nn.matmul(x, square), lambda x, w, c, s: x @ s),
        "matmul, both turned": (
            nn.matmul(cube, square, transpose_a=True, transpose_b=True),
            lambda x, w, c, s: c.transpose(0, 2, 1) @ s.T,
        ),
        "matmul, weight turned": (nn.matmul(x, w, transpose_b=True), lambda x, w, c, s: x @ w.T),
        "with bias and relu": (
            nn.relu(nn.bias_add(nn.dense(x, square), relay.const(np.arange(4, dtype="float32")))),
            lambda x, w, c, s: np.maximum(x @ s.T + np.arange(4), 0).astype("float32"),
        ),
    }
    known = isinstance(x.type_annotation.shape[0], int)
    sizes = [(3, 5)] if known else [(3, 5), (1, 1), (7, 3), (0, 2)]
    assert_table(
        [x, w, cube, square],
        table,
        *[(numbers(n, 4), numbers(m, 4), numbers(n, 4, 4), numbers(4, 4)) for n, m in sizes],
    )


def test_batch_matmul_broadcasts_a_batch_of_one() -> None:
    a, b = var("a", shape=(Any_(), Any_(), Any_())), var("b", shape=(Any_(), Any_(), Any_()))
    # An elementwise operator behind it: the two become one kernel.
    run = compiled([a, b], relay.exp(nn.batch_matmul(a, b)), nn.batch_matmul(b, a, transpose_b=True))
    for n, m in ((2, 2), (1, 3), (3, 1), (1, 1), (0, 1), (0, 0)):
        x, y = numbers(n, 3, 4), numbers(m, 5, 4)
        assert_same(run(x, y), (np.exp(x @ y.transpose(0, 2, 1)), y @ x.transpose(0, 2, 1)), rtol=1e-4, atol=1e-5)


def test_batch_matmul_turns_either_operand(dim: Any) -> None:
    a, b = var("a", shape=(dim(2), 4, dim(3))), var("b", shape=(dim(2), 4, dim(5)))
    table = {
        "a turned": (
            nn.batch_matmul(a, b, transpose_a=True, transpose_b=False),
            lambda a, b: a.transpose(0, 2, 1) @ b,
        ),
        "both turned": (
            nn.batch_matmul(a, relay.transpose(b, (0, 2, 1)), transpose_a=True, transpose_b=True),
            lambda a, b: a.transpose(0, 2, 1) @ b,
        ),
    }
    assert_table([a, b], table, (numbers(2, 4, 3), numbers(2, 4, 5)))


def test_out_dtype_is_the_type_of_the_sum() -> None:
    x, w = var("x", shape=(2, 300), dtype="int8"), var("w", shape=(3, 300), dtype="int8")
    a, b = np.full((2, 300), 100, "int8"), np.full((3, 300), -100, "int8")
    assert_same(compiled([x, w], nn.dense(x, w, out_dtype="int32"))(a, b), np.full((2, 3), -3_000_000, "int32"))


def test_short_floats_are_summed_up_in_float32() -> None:
    x, w = var("x", shape=(1, 4096), dtype="float16"), var("w", shape=(1, 4096), dtype="float16")
    # In float16, 2048 + 1 is 2048.
    ones = np.ones((1, 4096), "float16")
    assert_same(compiled([x, w], nn.dense(x, w))(ones, ones), np.array([[4096]], "float16"))


def test_type_of_a_weight_without_annotation_follows_from_units() -> None:
    x, w = var("x", shape=(Any_(), 7)), var("w")
    relay.transform.infer_expr(relay.Function([x, w], nn.dense(x, w, units=3)))
    assert str(w.checked_type) == "Tensor[(3, 7), float32]"


def test_type_errors_name_the_dimensions() -> None:
    x, w, cube = var("x", shape=(2, 4)), var("w", shape=(3, 5)), var("cube", shape=(2, 3, 4))
    assert type_error([x, w], nn.dense(x, w)) == "the inner dimensions differ: 4 of data and 5 of weight"
    assert type_error([x], nn.dense(x, x, units=3)) == "units is 3, but weight has 2"
    assert type_error([x, cube], nn.dense(x, cube)) == (
        "weight must have 2 dimensions, not 3: Tensor[(2, 3, 4), float32]"
    )
    other = var("other", shape=(3, 3, 4))
    assert type_error([cube, other], nn.batch_matmul(cube, other)) == (
        "the batches are 2 and 3; they must agree, or one must be 1"
    )
    assert type_error([cube, other], nn.batch_matmul(cube, other, transpose_b=False)) == (
        "the inner dimensions differ: 4 of tensor_a and 3 of tensor_b"
    )


@pytest.mark.parametrize(
    ("result", "shapes", "reason"),
    [
        (lambda a, b: nn.dense(a, b), ((2, 3), (4, 5)), "nn.dense: the inner dimensions differ: 3 and 5"),
        (lambda a, b: nn.matmul(a, b), ((2, 3), (4, 3)), "nn.matmul: the inner dimensions differ: 3 and 4"),
        (lambda a, b: nn.dense(a, b, units=3), ((2, 5), (4, 5)), "nn.dense: units is 3, but the weight has 4"),
        (
            lambda a, b: nn.batch_matmul(a, b),
            ((2, 3, 4), (2, 3, 5)),
            "nn.batch_matmul: the inner dimensions differ: 4 and 5",
        ),
        (
            lambda a, b: nn.batch_matmul(a, b),
            ((2, 3, 4), (3, 3, 4)),
            "nn.batch_matmul: dimension 0 is 3 in one input and 2 in another",
        ),
    ],
)
def test_unknown_dimensions_that_do_not_fit_are_an_error_when_run(result: Any, shapes: Any, reason: str) -> None:
    a, b = (var(n, shape=[Any_()] * len(s)) for n, s in zip("ab", shapes, strict=True))
    with pytest.raises(VMError, match=reason):
        compiled([a, b], result(a, b))(*[np.zeros(s, "float32") for s in shapes])
