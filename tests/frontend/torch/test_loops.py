"""Loops of programs, ``while_loop``, ``map`` and ``scan``, beside PyTorch, at other sizes than the example's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, exported, machine_of, tensor, torch
from vmkit.errors import VMError

map_over = pytest.importorskip("torch._higher_order_ops.map").map
scan = pytest.importorskip("torch._higher_order_ops.scan").scan
while_loop = pytest.importorskip("torch._higher_order_ops.while_loop").while_loop

TWO = [(tensor(3, 4),), (tensor(1, 1),), (tensor(7, 11),)]
THREE = [(tensor(2, 3, 4),), (tensor(1, 1, 1),), (tensor(5, 7, 11),)]


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    """PyTorch compiles these operators, and guards of what it compiled before fail for functions like those."""
    torch.compiler.reset()


def test_a_loop_goes_on_while_its_condition_holds() -> None:
    def function(x: torch.Tensor) -> Any:
        return while_loop(lambda x, n: x.norm() > 1, lambda x, n: (x * 0.5, n + 1), (x, torch.tensor(0)))

    agree_at(function, [*TWO, (torch.zeros(2, 3),), (tensor(3, 4) * 1000,)])


def test_integers_are_carried_and_count_the_times() -> None:
    def function(x: torch.Tensor) -> Any:
        times, last = while_loop(lambda i, x: i < x.shape[0], lambda i, x: (i + 1, x * 0.5 + i), (0, x))
        return last, x.new_ones(times, 2)

    agree_at(function, TWO)


def test_a_size_that_a_loop_counted_is_checked() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        count, _ = while_loop(lambda i, n: i > n, lambda i, n: (i - 1, n + 0), (4, n))
        return x.new_ones(count, 2)

    program = exported(function, tensor(3), torch.tensor(2))
    machine = machine_of(program)
    for n in (2, 0, 3):
        assert machine.run(tensor(3).numpy(), np.array(n)).numpy().shape == (n, 2)
    with pytest.raises(VMError, match=r"u\d+ >= 0"):
        machine.run(tensor(3).numpy(), np.array(-3))


def test_layers_within_a_loop_have_their_weights() -> None:
    layer = torch.nn.Linear(4, 4)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> Any:
            return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.layer(x).tanh()), (torch.tensor(0), x))

    model = Model().eval()
    program = torch.export.export(model, (tensor(3, 4),), dynamic_shapes=({0: AUTO},))
    with torch.no_grad():
        agree_at(model, [(tensor(n, 4),) for n in (3, 1, 7)], program=program)


def test_a_function_is_mapped_over_rows() -> None:
    def function(x: torch.Tensor) -> Any:
        return map_over(lambda pair: (pair[0] + pair[1], (pair[0] * pair[1]).sum()), (x, x * 2))

    agree_at(function, [*TWO, (tensor(13, 2),)])


def test_what_each_row_is_given_beside() -> None:
    given = [(tensor(*s, k), tensor(k, n)) for *s, k, n in ((2, 3, 4, 5), (1, 1, 1, 1), (5, 7, 11, 3))]
    agree_at(lambda x, w: map_over(lambda row, w: (row @ w).softmax(-1), x, w), given)


def test_maps_stand_in_maps() -> None:
    agree_at(lambda x: map_over(lambda a: map_over(lambda b: b * 2 + b.sum(), a), x), THREE)


@pytest.mark.parametrize(("axis", "back"), [(0, False), (1, False), (0, True)])
def test_rows_are_scanned(axis: int, back: bool) -> None:
    def step(states: Sequence[torch.Tensor], row: torch.Tensor) -> Any:
        total, share = states
        return [total * 0.5 + row, share * 0.9], (total * row, share.sum())

    def function(x: torch.Tensor) -> Any:
        begin = x.select(axis, 0)
        return scan(step, [torch.zeros_like(begin), torch.ones_like(begin)], x, dim=axis, reverse=back)

    agree_at(function, THREE)


def test_rows_of_what_is_computed_of_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        both = torch.cat([x, x * 2], 1)
        return scan(lambda c, a: (c + a * a.shape[0], c[: a.shape[0] // 2] * 2), torch.zeros_like(both[0]), both)

    agree_at(function, TWO)


def test_loops_write_to_buffers_of_their_own() -> None:
    def function(x: torch.Tensor) -> Any:
        begin = torch.zeros_like(x[0])
        one, other = (scan(lambda c, a, s=s: (c + s * a, c * a), begin, x) for s in (1, -2))
        return one, other, torch.zeros_like(x), torch.zeros_like(x) + 1

    def fixed(x: torch.Tensor) -> Any:
        return function(x)

    agree_at(function, THREE)
    agree_at(fixed, THREE[:1], program=torch.export.export(Of(fixed).eval(), THREE[0]))


def test_branches_within_loops() -> None:
    def grown(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 2, lambda x: x * 0.5, lambda x: x + 1, (x,))

    agree_at(lambda x: while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, grown(x)), (torch.tensor(0), x)), TWO)


def test_many_iterations_take_no_stack() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < n, lambda i, x: (i + 1, x * -1), (torch.tensor(0), x))

    agree_at(function, [(tensor(3), torch.tensor(k)) for k in (3, 0, 100_001)])
