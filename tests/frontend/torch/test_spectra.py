"""Eigenvalues and singular values: PyTorch's, and vectors that give the matrices back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import agree_at, exported, machine_of, torch

L = torch.linalg


def stack(*shape: int, dtype: Any = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape)).to(dtype)


def of_symmetric(x: torch.Tensor) -> Any:
    values, vectors = L.eigh(x)
    whole = vectors @ torch.diag_embed(values) @ vectors.mT
    return values, whole, vectors.mT @ vectors, L.eigvalsh(x, UPLO="U"), L.eigvalsh(x @ x.mT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_symmetric_matrices_are_their_eigenvalues_and_vectors(dtype: Any) -> None:
    shapes = [(2, 4, 4), (1, 1, 1), (3, 13, 13), (1, 40, 40)]
    given = [(stack(*shape, dtype=dtype),) for shape in shapes]
    flat = (torch.ones(2, 5, 5, dtype=dtype),)  # many values that are equal
    near = 1e-4 if dtype is torch.float32 else 1e-10
    agree_at(of_symmetric, [*given, flat, (flat[0] * 0,)], rtol=near, atol=near * 10)


def of_any(x: torch.Tensor) -> Any:
    left, values, right = L.svd(x, full_matrices=False)
    wide, _, tall = L.svd(x)
    return (
        values, (left * values[..., None, :]) @ right, left.mT @ left, right @ right.mT, wide.mT @ wide,
        tall @ tall.mT, L.svdvals(x), L.matrix_norm(x, "nuc"),
    )  # fmt: skip


@pytest.mark.parametrize("is_tall", [False, True], ids=["wide", "tall"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_matrices_are_their_singular_values_and_vectors(dtype: Any, is_tall: bool) -> None:
    given = [stack(*shape, dtype=dtype) for shape in ((2, 4, 5), (3, 7, 13), (1, 20, 31))]
    short = stack(2, 5, 2, dtype=dtype) @ stack(2, 2, 6, dtype=dtype)  # of rank 2
    matrices = [*given, short, short * 0]
    near = 1e-4 if dtype is torch.float32 else 1e-10
    agree_at(of_any, [(x.mT.contiguous() if is_tall else x,) for x in matrices], rtol=near, atol=near * 10)


def test_what_is_no_number_ends() -> None:
    machine = machine_of(exported(lambda x: L.eigvalsh(x), stack(2, 4, 4)))
    assert np.isnan(machine.run(np.full((1, 3, 3), np.nan, "float32")).numpy()).all()
