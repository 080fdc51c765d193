"""Distances of rows of every order, and bilinear layers, in programs of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, tensor, torch

INF = float("inf")


@pytest.mark.parametrize("order", [0.0, 1.0, 1.5, 2.0, 3.0, INF])
def test_distances_have_their_order(order: float) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cdist(x, y, p=order), torch.cdist(x[0], y, p=order), torch.pdist(x[0], p=order)

    agree_at(
        function,
        [(tensor(2, 4, 3), tensor(2, 5, 3)), (tensor(3, 7, 5), tensor(3, 1, 5)), (tensor(1, 3, 1), tensor(1, 2, 1))],
    )


def test_bilinear_layers_multiply_rows_of_two_tensors() -> None:
    layer = torch.nn.Bilinear(4, 5, 6)
    example = (tensor(3, 2, 4), tensor(3, 2, 5))
    axes = ({0: AUTO, 1: AUTO},) * 2
    program = torch.export.export(Of(lambda x, y: layer(x, y)), example, dynamic_shapes=(axes,))
    others = [(tensor(b, n, 4), tensor(b, n, 5)) for b, n in ((1, 7), (5, 1))]
    agree_at(layer, [example, *others], program=program)
