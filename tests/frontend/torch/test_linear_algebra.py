"""Linear algebra of PyTorch over stacks of matrices of any size, and what it says of those that it cannot take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import agree_at, exported, machine_of, torch
from vmkit.errors import VMError

L = torch.linalg


def stack(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape)).to(dtype)


def positive(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(x.shape[-1], dtype=x.dtype)


def systems(a: torch.Tensor, b: torch.Tensor) -> Any:
    factors, pivots, info = L.lu_factor_ex(a)
    return (
        L.inv(a), L.det(a), *L.slogdet(a), L.solve(a, b), L.solve(a, b[..., 0]), L.inv_ex(a).inverse,
        factors, pivots, info, L.solve(a[0], b), torch.inverse(a[1]),
    )  # fmt: skip


def triangles(a: torch.Tensor, b: torch.Tensor) -> Any:
    whole = positive(a)
    lower, upper = L.cholesky(whole), L.cholesky(whole, upper=True)
    return (
        lower, upper, torch.cholesky_solve(b, lower), torch.cholesky_solve(b, upper, upper=True),
        L.solve_triangular(upper, b, upper=True), L.solve_triangular(lower, b, upper=False),
        L.solve_triangular(upper, b.mT, upper=True, left=False),
        L.solve_triangular(lower, b.mT, upper=False, left=False, unitriangular=True),
        L.cholesky_ex(whole)[1],
    )  # fmt: skip


def powers(a: torch.Tensor) -> Any:
    return torch.matrix_exp(a), torch.matrix_exp(a * 40 - 100), torch.matrix_exp(a[0] * 0), L.matrix_power(a, 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [systems, triangles])
def test_systems_are_solved_at_every_size(function: Callable[..., Any], dtype: torch.dtype) -> None:
    sizes = [((2, 4, 4), (2, 4, 3)), ((5, 7, 7), (5, 7, 1)), ((2, 1, 1), (2, 1, 2)), ((3, 13, 13), (3, 13, 6))]
    given = [tuple(stack(*shape, dtype=dtype) for shape in pair) for pair in sizes]
    agree_at(
        function, given, rtol=2e-3 if dtype is torch.float32 else 1e-9, atol=1e-4 if dtype is torch.float32 else 1e-9
    )


def test_exponentials_of_small_and_large_matrices() -> None:
    agree_at(
        powers, [(stack(n, k, k, dtype=torch.float64) / 3,) for n, k in ((2, 4), (3, 7), (1, 1))], rtol=1e-8, atol=1e-9
    )
    agree_at(torch.matrix_exp, [(stack(2, 4, 4),), (stack(3, 7, 7),)], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["reduced", "complete", "r"])
@pytest.mark.parametrize("sizes", [((2, 5, 3), (3, 11, 7)), ((2, 3, 5), (1, 4, 9)), ((2, 4, 4), (3, 7, 7))], ids=str)
def test_orthogonal_factors_have_lapacks_signs(mode: str, sizes: Any) -> None:
    def function(x: torch.Tensor) -> Any:
        return L.qr(x, mode=mode)[1 if mode == "r" else 0 :]

    example = stack(*sizes[0])
    axes = (
        {0: torch.export.Dim.AUTO} if sizes[0][1] <= sizes[0][2] else dict.fromkeys((0, 1, 2), torch.export.Dim.AUTO),
    )
    program = exported(function, example) if axes[0].keys() == {0, 1, 2} else None
    agree_at(function, [(stack(*s),) for s in sizes], rtol=1e-3, atol=1e-4, program=program)


def test_matrices_that_cannot_be_taken_are_named() -> None:
    example, singular = stack(2, 3, 3), torch.ones(4, 3, 3)
    for function, what in ((L.inv, "linalg.inv"), (lambda x: L.cholesky(positive(x)), "linalg.cholesky")):
        machine = machine_of(exported(function, example))
        bad = singular if what == "linalg.inv" else singular * float("nan")
        with pytest.raises(VMError, match=what):
            machine.run(bad.numpy())
    made = machine_of(exported(lambda x: L.inv_ex(x).info, example)).run(singular.numpy())
    assert made.numpy().tolist() == [2] * 4
