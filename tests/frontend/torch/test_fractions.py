"""Fractions of sizes that tensors are computed with, such as the scale of attention whose head size is dynamic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, tensor, torch

attention = torch.nn.functional.scaled_dot_product_attention


def heads(batch: int, count: int, rows: int, size: int) -> tuple[torch.Tensor, ...]:
    x = tensor(batch, count, rows, size)
    return x, x * 0.5 + 1, x - 1


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_head_size_of_attention_may_be_any(is_causal: bool) -> None:
    given = [heads(2, 3, 5, 8), heads(1, 1, 7, 1), heads(3, 2, 11, 17)]
    agree_at(lambda q, k, v: attention(q, k, v, is_causal=is_causal), given)


def test_several_heads_of_queries_look_at_one_of_keys() -> None:
    def function(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return attention(q, k, k + 1, enable_gqa=True)

    given = [(tensor(b, 6, n, d), tensor(b, 3, m, d)) for b, n, m, d in ((2, 5, 4, 8), (1, 1, 7, 1), (3, 11, 2, 17))]
    axes = ({0: AUTO, 2: AUTO, 3: AUTO},) * 2
    agree_at(function, given, program=torch.export.export(Of(function).eval(), given[0], dynamic_shapes=(axes,)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (x.shape[0] / x.shape[1]),
        lambda x: x / x.shape[1] ** 0.5 + (1.5 * x.shape[0]) ** -0.5,
        lambda x: x - (1 + x.shape[0] / 7) ** 1.5,
    ],
    ids=["quotient", "roots", "power"],
)
def test_tensors_are_computed_with_fractions_of_sizes(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    agree_at(function, [(tensor(3, 4),), (tensor(1, 1),), (tensor(7, 11),)], rtol=1e-6)
