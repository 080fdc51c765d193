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


@pytest.mark.parametrize(
    ("dtype", "worst", "name"),
    [
        ("uint8", 0, "argmax"),
        ("int8", -128, "argmax"),
        ("float32", -np.inf, "argmax"),
        ("int32", 2**31 - 1, "argmin"),
        ("float16", np.inf, "argmin"),
    ],
)
def test_worst_values_have_a_position_too(dtype: str, worst: float, name: str) -> None:
    x = var("x", shape=(2, 3, relay.Any()), dtype=dtype)
    build = relay.op.build
    run = compiled([x], build(name, x, (1, 2)), build(name, x, -1, True, select_last_index=True))
    first, last = run(np.full((2, 3, 4), worst, dtype))
    assert (first.tolist(), last.tolist()) == ([0, 0], [[[3]] * 3] * 2)
    assert run(np.zeros((2, 3, 0), dtype))[0].tolist() == [-1, -1]


def test_extremes_of_bfloat16_are_exact() -> None:
    x = var("x", shape=(5, 4), dtype="float32")
    short = relay.cast(x, "bfloat16")
    results = [relay.max(short, 1), relay.min(short, 0), relay.logsumexp(short, 1)]
    positions = [relay.argmax(short, 1), relay.argmin(short)]
    run = compiled([x], *[relay.cast(r, "float32") for r in results], *positions)
    largest, smallest, total, *found = run(I.astype("float32"))
    assert_same((largest, smallest), (I.max(1).astype("float32"), I.min(0).astype("float32")))
    assert_same(tuple(found), (I.argmax(1).astype("int32"), I.argmin().astype("int32")))
    np.testing.assert_allclose(total, np.log(np.exp(I.astype("float32")).sum(1)), rtol=2e-2)
