"""Activations, and how operators are written by simpler ones before they are imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, tensor, torch
from vmkit.frontend.torch.activations import ACTIVATIONS
from vmkit.frontend.torch.decompositions import decompositions

functional = torch.nn.functional

EVERY: list[Callable[..., Any]] = [
    functional.hardswish,
    functional.hardsigmoid,
    functional.silu,
    functional.leaky_relu,
    lambda x: functional.leaky_relu(x, -0.3),
]


@pytest.mark.parametrize("function", EVERY)
def test_activations_at_each_of_their_parts(function: Callable[..., Any]) -> None:
    bounds = torch.tensor([-3.0, -0.0, 0.0, 3.0, -88.0, 90.0, float("inf"), -2.999, 2.999, -7.5, 7.5, 0.5])
    given = [(tensor(2, 12) * 3 + bounds,), (tensor(1, 12) + bounds,), (tensor(13, 12) * 5,)]
    agree_at(function, given, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("function", EVERY)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_activations_are_computed_wide_enough(function: Callable[..., Any], dtype: Any) -> None:
    exact = dtype == torch.float64
    given = [((tensor(3, 5) * 4).to(dtype),), ((tensor(1, 7) * 4).to(dtype),)]
    agree_at(function, given, rtol=1e-13 if exact else 1e-3, atol=1e-14 if exact else 1e-6)


def test_activations_are_not_written_by_simpler_operators() -> None:
    names = {operator.__name__ for operator in decompositions(ACTIVATIONS)}
    assert names.isdisjoint(ACTIVATIONS)
    assert {"hardtanh.default", "linear.default"} & names


def test_attention_may_be_looked_at_as_rows() -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        made = functional.scaled_dot_product_attention(x, x * 0.5, x + 1, is_causal=True)
        made = made.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)
        return made.view(-1, made.shape[-1]) * 2

    given = [(tensor(2, 4, 3, 8),), (tensor(1, 4, 1, 8),), (tensor(5, 4, 13, 8),)]
    program = torch.export.export(Of(rows).eval(), given[0], dynamic_shapes=(({0: AUTO, 2: AUTO},),))
    agree_at(rows, given, program=program)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_attention_of_places_that_see_none_is_zero(dtype: Any) -> None:
    def attention(x: torch.Tensor, mask: torch.Tensor) -> Any:
        made = functional.scaled_dot_product_attention(x, x * 0.5, x + 1, attn_mask=mask > 0)
        return made, torch.amax(torch.where(mask > 0, mask, -float("inf")), -1)

    def given(batch: int, length: int) -> tuple[torch.Tensor, ...]:
        mask = tensor(batch, 1, length, length)
        mask[0, 0, length // 2] = -1
        return tensor(batch, 4, length, 16).to(dtype), mask

    places = [given(2, 3), given(1, 1), given(3, 17)]
    program = torch.export.export(
        Of(attention).eval(), places[0], dynamic_shapes=(({0: AUTO, 2: AUTO}, {0: AUTO, 2: AUTO, 3: AUTO}),)
    )
    agree_at(attention, places, program=program, rtol=1e-4 if dtype == torch.float32 else 1e-2, atol=1e-3)
