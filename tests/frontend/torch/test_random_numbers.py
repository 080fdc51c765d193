"""Random numbers in programs of PyTorch: their distributions, and that two runs differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, exported, machine_of, tensor, torch
from vmkit.errors import VMError

F = torch.nn.functional
MANY = 20000


def drawn(x: torch.Tensor) -> Any:
    return (
        torch.rand(x.shape), torch.randn_like(x), torch.randint(-2, 5, x.shape), torch.randint_like(x, 3),
        torch.normal(x * 0 + 3, 2.0), x.clone().uniform_(2, 4), x.clone().exponential_(0.5), x.clone().normal_(1, 3),
        torch.bernoulli(x * 0 + 0.3), F.dropout(x * 0 + 1, 0.25, True), F.rrelu(x * 0 - 1, 0.2, 0.4, True),
    )  # fmt: skip


# Mean, deviation, least and most of each.
EXPECTED = [
    (0.5, 12**-0.5, 0, 1), (0, 1, -7, 7), (1, 2, -2, 4), (1, (2 / 3) ** 0.5, 0, 2), (3, 2, -11, 17),
    (3, 2 / 12**0.5, 2, 4), (2, 2, 0, 40), (1, 3, -20, 22), (0.3, 0.21**0.5, 0, 1), (1, (1 / 3) ** 0.5, 0, 4 / 3),
    (-0.3, 0.2 / 12**0.5, -0.4, -0.2),
]  # fmt: skip


def test_distributions_are_pytorchs() -> None:
    machine = machine_of(exported(drawn, tensor(3, 4)))
    x = np.zeros((4, MANY // 4), "float32")
    first, second = (machine.run(x) for _ in range(2))
    for at, (one, other, (mean, deviation, least, most)) in enumerate(zip(first, second, EXPECTED, strict=True)):
        values = one.numpy()
        assert values.dtype == drawn(torch.zeros(1, 2))[at].numpy().dtype and values.shape == x.shape
        assert not np.array_equal(values, other.numpy()), at
        near = 5 * deviation / MANY**0.5
        assert abs(values.mean() - mean) < near and abs(values.std() - deviation) < 3 * near, (at, values.mean())
        assert values.min() >= least - 1e-6 and values.max() <= most + 1e-6, at


def test_positions_are_as_likely_as_their_weights() -> None:
    def function(w: torch.Tensor) -> Any:
        return torch.multinomial(w, 4000, replacement=True), torch.multinomial(w, 2)

    program = torch.export.export(Of(function), (torch.rand(3, 4),), dynamic_shapes=(({0: AUTO},),))
    machine = machine_of(program)
    weights = np.array([[1, 2, 3, 4], [0, 1, 0, 1]] * 500, "float32")
    many, two = (each.numpy() for each in machine.run(weights))
    for row in (0, 1):
        share = np.bincount(many[row], minlength=4) / 4000
        np.testing.assert_allclose(share, weights[row] / weights[row].sum(), atol=0.05)
    assert (two[:, 0] != two[:, 1]).all() and set(two[1::2].ravel()) == {1, 3}
    # The first of two is as likely as its weight.
    np.testing.assert_allclose(np.bincount(two[::2, 0], minlength=4) / 500, [0.1, 0.2, 0.3, 0.4], atol=0.1)


@pytest.mark.parametrize("weights", [[0, 0, 0], [1, -1, 3], [1, np.nan, 2], [np.inf, 1, 1]])
def test_weights_by_which_nothing_can_be_drawn_are_an_error(weights: list[float]) -> None:
    machine = machine_of(exported(lambda w: torch.multinomial(w, 2), torch.rand(3, 4)))
    with pytest.raises(VMError, match="multinomial: in a row of weights"):
        machine.run(np.array([[1, 2, 3], weights], "float32"))


def test_permutations_hold_each_number_once() -> None:
    machine = machine_of(exported(lambda x: torch.randperm(x.shape[0]), tensor(4, 3)))
    orders = {tuple(machine.run(np.zeros((3, 2), "float32")).numpy()) for _ in range(200)}
    assert len(orders) == 6 and all(sorted(order) == [0, 1, 2] for order in orders)


def test_each_node_draws_numbers_of_its_own() -> None:
    machine = machine_of(exported(lambda x: (torch.rand_like(x), torch.rand_like(x), F.dropout(x, 0.5)), tensor(3, 4)))
    one, other, _ = (each.numpy() for each in machine.run(np.ones((30, 40), "float32")))
    assert (one != other).mean() > 0.99 and abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.15


def test_what_does_not_train_draws_nothing() -> None:
    given = [(tensor(3, 4),), (tensor(1, 7),)]
    agree_at(lambda x: (F.dropout(x, 0.5, False), F.rrelu(x), F.dropout(x, 0.0, True), F.dropout(x, 1.0, True)), given)
