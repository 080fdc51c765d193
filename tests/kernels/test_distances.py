"""Distances of rows from rows, which are scheduled as products of matrices are, and keep the digits of small ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tests.kernels.products import TARGET, built
from vmkit.schedule import cpu as rules
from vmkit.schedule.cpu import product

SYMBOLS = tuple(tirx.Var(name, "int64") for name in "mnk")
FORMS = [(a, b) for a in (False, True) for b in (False, True)]
SIZES = [(33, 45, 19), (1, 37, 5), (7, 100, 64), (64, 70, 33), (5, 4, 1), (70, 3, 33)]

Term = Callable[[Any], Any]
TERMS: dict[str, tuple[Term, Term]] = {"squares": (lambda d: d * d, np.square), "amounts": (tirx.abs, np.abs)}


def kernel(form: tuple[bool, bool], sizes: tuple[Any, ...], term: Term, dtype: str) -> tirx.PrimFunc:
    """Return sums over the differences of rows, each operand with its rows, or its columns, next to each other."""
    m, n, k = sizes
    x = te.placeholder((k, m) if form[0] else (m, k), name="x", dtype=dtype)
    y = te.placeholder((k, n) if form[1] else (n, k), name="y", dtype=dtype)
    along = te.reduce_axis((0, k), name="along")

    def element(i: Any, j: Any) -> Any:
        return te.sum(
            term((x[along, i] if form[0] else x[i, along]) - (y[along, j] if form[1] else y[j, along])), axis=along
        )

    return te.create_prim_func([x, y, te.compute((m, n), element)])


def check(run: Any, form: tuple[bool, bool], sizes: tuple[int, int, int], term: Term, dtype: str) -> None:
    m, n, k = sizes
    # Far from 0 and near each other: products less products would lose all digits.
    random = np.random.default_rng(m + n + k)
    x, y = (1000 + random.uniform(-1, 1, (size, k)).astype(dtype) for size in (m, n))
    expected = term(x[:, None].astype("float64") - y[None]).sum(-1)
    stored = (np.ascontiguousarray(v.T) if is_turned else v for v, is_turned in zip((x, y), form, strict=True))
    out = tvm.runtime.tensor(np.full((m, n), np.nan, dtype))
    run["main"](*map(tvm.runtime.tensor, stored), out)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5 if dtype == "float32" else 1e-12, err_msg=str(sizes))


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_are_exact(form: tuple[bool, bool], term: str, dtype: str) -> None:
    made, expected = TERMS[term]
    for sizes in SIZES:
        check(built(kernel(form, sizes, made, dtype)), form, sizes, expected, dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("term", TERMS)
def test_distances_of_any_size_are_exact(form: tuple[bool, bool], term: str) -> None:
    made, expected = TERMS[term]
    run = built(kernel(form, SYMBOLS, made, "float32"))
    for sizes in itertools.product([0, 1, 4, 13], [0, 1, 4, 16, 33], [0, 1, 16, 37]):
        check(run, form, sizes, expected, "float32")


@pytest.mark.parametrize(
    "term",
    [lambda x, y: (x - y) * (y - x), lambda x, y: (x - y) * (x + y), lambda x, y: x - y, lambda x, y: (x - y) * x],
)
def test_other_sums_of_differences_are_no_products(term: Callable[[Any, Any], Any]) -> None:
    x, y = (te.placeholder((20, 24), name=name) for name in "xy")
    along = te.reduce_axis((0, 24), name="along")
    made = te.compute((20, 20), lambda i, j: te.sum(term(x[i, along], y[j, along]), axis=along))
    plain = rules.prepared(te.create_prim_func([x, y, made]))
    assert plain is not None
    assert product.RULE.decide(plain, TARGET) is None
