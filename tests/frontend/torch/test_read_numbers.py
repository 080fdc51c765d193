"""Numbers that programs of PyTorch read from tensors: sizes of what follows, and what is demanded of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, exported, machine_of, tensor, torch
from vmkit.errors import VMError

F = torch.nn.functional


def test_parts_have_the_sizes_that_a_tensor_says() -> None:
    def function(x: torch.Tensor, sizes: torch.Tensor) -> Any:
        first, second = torch.split(x, sizes.tolist(), 0)
        return first * 2, second.sum(0), torch.cat([second, first]) + x

    example = (tensor(5, 3), torch.tensor([2, 3]))
    program = torch.export.export(Of(function), example, dynamic_shapes=(({0: AUTO, 1: AUTO}, {}),), strict=False)
    agree_at(
        function,
        [example, (tensor(7, 1), torch.tensor([0, 7])), (tensor(3, 11), torch.tensor([3, 0]))],
        program=program,
    )
    with pytest.raises(VMError):
        machine_of(program).run(tensor(5, 3).numpy(), np.array([2, 4]))


def test_what_is_demanded_of_a_number_is_checked_when_it_runs() -> None:
    def function(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        number = count[0].item()
        torch._check(number >= 2)
        torch._check(number <= x.shape[0], lambda: "more rows than there are")
        return x.narrow(0, 0, number)

    example = (tensor(5, 3), torch.tensor([2]))
    program = torch.export.export(Of(function), example, dynamic_shapes=(({0: AUTO}, {}),), strict=False)
    agree_at(function, [example, (tensor(7, 3), torch.tensor([7]))], program=program)
    machine = machine_of(program)
    for number in (1, 6):
        with pytest.raises(VMError, match=r"[Rr]untime assertion failed"):
            machine.run(example[0].numpy(), np.array([number]))


def test_sizes_that_are_read_are_those_of_a_tensor() -> None:
    def function(count: torch.Tensor) -> Any:
        number = count.item()
        torch._check(number >= 0)
        return torch.zeros(number) + 1, torch.ones(number, number, dtype=torch.int8), torch.arange(number)

    program = torch.export.export(Of(function), (torch.tensor(4),), dynamic_shapes=(({},),), strict=False)
    agree_at(function, [(torch.tensor(4),), (torch.tensor(0),), (torch.tensor(31),)], program=program)
    machine = machine_of(program)
    for number in (1 << 60, 1 << 32, np.iinfo("int64").max):
        with pytest.raises(VMError, match="more elements than a tensor can have"):
            machine.run(np.array(number))
    for number in (-3, np.iinfo("int64").min):
        with pytest.raises(VMError, match="u0 >= 0"):
            machine.run(np.array(number))


def test_masks_choose_where_values_go_in_turn() -> None:
    def function(x: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor) -> Any:
        written, added = x.clone(), x.clone()
        written[mask] = x[mask] * 2
        added[rows] = added[rows] + 1
        return written, added, x.index_put((mask,), torch.tensor(3.0), accumulate=True)

    given = [
        (tensor(b, n), tensor(n, b).T.contiguous() > 0, tensor(b, 1)[:, 0] > 0) for b, n in ((3, 4), (7, 5), (2, 11))
    ]
    agree_at(function, given)


def test_as_many_values_are_needed_as_a_mask_has_places() -> None:
    def function(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x.index_put((x > 0.5,), values)

    machine = machine_of(exported(function, torch.ones(2, 2), torch.arange(4.0)))
    np.testing.assert_array_equal(
        machine.run(np.ones((1, 3), "float32"), np.arange(3, dtype="float32")).numpy(), [[0, 1, 2]]
    )
    for count in (0, 2, 4):
        with pytest.raises(VMError, match="one value is needed for each place where the mask is true"):
            machine.run(np.ones((1, 3), "float32"), np.zeros(count, "float32"))


def test_widths_of_pads_are_computed_of_sizes() -> None:
    def function(x: torch.Tensor) -> Any:
        rest = (4 - x.shape[1] % 4) % 4
        return F.pad(x, (0, rest)), F.pad(x, (x.shape[0], 1), value=2.0), F.pad(x, (-1, rest), value=float("-inf"))

    agree_at(function, [(tensor(3, 6),), (tensor(1, 8),), (tensor(5, 13),)])


def test_halves_that_are_equal_by_a_guard_are_joined() -> None:
    def function(x: torch.Tensor) -> Any:
        a, b = x[:, ::2], x[:, 1::2]
        return a + b, torch.cat([a, b[:, : a.shape[1]]], 0)

    program = exported(function, tensor(3, 8))
    agree_at(function, [(tensor(3, 8),), (tensor(7, 4),), (tensor(1, 22),)], program=program)


def test_tensors_of_infinity() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.full((x.shape[0], 3), float("-inf")), torch.full((2, x.shape[1]), float("nan"))

    agree_at(function, [(tensor(4, 4),), (tensor(7, 1),)])


def test_branches_have_sizes_of_their_own() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda t: (t + 1, t.sum()), lambda t: (t - t[:1], t.mean()), (x,))

    agree_at(function, [(tensor(3, 4),), (-tensor(7, 5).abs(),), (tensor(2, 9).abs(),)])


def test_what_is_demanded_of_a_slice_between_numbers() -> None:
    rows = tensor(32, 8)

    def function(x: torch.Tensor, k: torch.Tensor) -> Any:
        part = rows[16 - k.max() : 16 + k.max()].unsqueeze(0)
        torch._check(part.shape[1] != 0)
        halves = (part * 2).view(part.shape[1], 2, 4).permute(1, 0, 2).relu()
        return halves + 1, x @ part[0].T

    given = [(tensor(2, n, 8), torch.tensor(k)) for n, k in ((12, [3, 5]), (7, [2]), (1, [16, 1, 2]))]
    program = exported(function, *given[0])
    agree_at(function, given, program=program)
    with pytest.raises(VMError, match=r"Ne\(u\d+, 0\)"):
        machine_of(program).run(np.ones((1, 1, 8), "float32"), np.zeros(2, "int64"))
