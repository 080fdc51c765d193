"""Reductions agree with numpy, over every kind of axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.relay import var

A = np.random.default_rng(0).normal(size=(5, 4)).astype("float32")
B = A > 0
I = (A * 5).astype("int32")  # noqa: E741


def test_reductions_agree_with_numpy(dim: Any) -> None:
    x, b, i = var("x", shape=(dim(5), 4)), var("b", shape=(dim(5), 4), dtype="bool"), var("i", "int32")
    i = var("i", shape=(dim(5), 4), dtype="int32")
    table: dict[str, Any] = {}
    for name in ("sum", "max", "min", "prod", "mean"):
        build, numpy = relay.op.build, getattr(np, name)
        table[f"{name} of rows"] = build(name, x, 1), lambda x, b, i, f=numpy: f(x, 1)
        table[f"{name} kept"] = build(name, x, 0, True), lambda x, b, i, f=numpy: f(x, 0, keepdims=True)
        table[f"{name} of all"] = build(name, x), lambda x, b, i, f=numpy: f(x).astype("float32")
        table[f"{name} exclude"] = build(name, x, [0, -1], exclude=True), lambda x, b, i: x
    table["integer sum"] = relay.sum(i, 1), lambda x, b, i: i.sum(1, dtype="int32")
    table["integer mean is cut"] = relay.mean(i, 1), lambda x, b, i: np.trunc(i.sum(1) / 4).astype("int32")
    table["max of bool"] = relay.max(b, 0), lambda x, b, i: b.any(0)
    table["min of bool"] = relay.min(b, 1), lambda x, b, i: b.all(1)
    table["all"] = relay.all(b, 1), lambda x, b, i: b.all(1)
    table["any"] = relay.any(b, 0, True), lambda x, b, i: b.any(0, keepdims=True)
    table["argmax"] = relay.argmax(x, 1), lambda x, b, i: x.argmax(1).astype("int32")
    table["argmin of all"] = relay.argmin(x), lambda x, b, i: x.argmin().astype("int32")
    table["first"] = relay.argmax(i, 0), lambda x, b, i: i.argmax(0).astype("int32")
    table["last"] = (
        relay.argmax(i, 1, select_last_index=True),
        lambda x, b, i: (3 - i[:, ::-1].argmax(1)).astype("int32"),
    )
    table["variance"] = relay.variance(x, 1), lambda x, b, i: x.var(1)
    table["unbiased std"] = relay.std(x, 1, unbiased=True), lambda x, b, i: x.std(1, ddof=1)
    table["logsumexp"] = relay.logsumexp(x, 1), lambda x, b, i: np.log(np.exp(x).sum(1))
    table["mean_variance"] = relay.mean_variance(x, 1), lambda x, b, i: (x.mean(1), x.var(1))
    table["mean_std"] = (
        relay.mean_std(x, 1, True),
        lambda x, b, i: (
            x.mean(1, keepdims=True),
            x.std(1, keepdims=True),
        ),
    )
    sizes = [5] if isinstance(x.type_annotation.shape[0], int) else [5, 2, 3]
    assert_table([x, b, i], table, *[(A[:n], B[:n], I[:n]) for n in sizes])


def test_reduction_of_nothing_gives_the_neutral_element() -> None:
    x = var("x", shape=(relay.Any(), 2))
    total, product, mean = compiled([x], relay.sum(x, 0), relay.prod(x, 0), relay.sum(x, 1))(
        np.zeros((0, 2), "float32")
    )
    assert_same((total, product), (np.zeros(2, "float32"), np.ones(2, "float32")))
    assert mean.shape == (0,)


def test_float16_is_summed_in_float32() -> None:
    x = var("x", shape=(70000,), dtype="float16")
    mean = compiled([x], relay.mean(x))(np.full(70000, 3, "float16"))
    assert mean == np.float16(3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.sum(x, 2), "axis is 2, but the input has 2 dimensions; allowed are -2 to 1"),
        (lambda x: relay.sum(x, [0, -2]), "axis [0, -2] names the same axis of 2 twice"),
        (lambda x: relay.all(x), "the input must be bool, not float32; compare or cast it"),
    ],
)
def test_wrong_reductions_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 3))
    assert type_error([x], build(x)) == message
