"""What PyTorch writes at positions, on diagonals and through strides, and bits that are taken for another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import agree_at, exported, machine_of, tensor, torch
from vmkit.errors import UnsupportedOperatorError, VMError

F = torch.nn.functional
REDUCTIONS = ("prod", "mean", "amax", "amin")


def reduced(x: torch.Tensor, y: torch.Tensor, at: torch.Tensor) -> Any:
    return (
        *(x.index_reduce(1, at, y, kind) for kind in REDUCTIONS),
        *(x.index_reduce(1, at, y, kind, include_self=False) for kind in REDUCTIONS),
        (x * 9).long().index_reduce(-2, at, (y * 9).long(), "amax"),
    )


def test_slices_are_reduced_where_positions_say() -> None:
    def of(*shape: int) -> tuple[torch.Tensor, ...]:
        first, size, last, count = shape
        at = torch.from_numpy(np.random.default_rng(count).integers(0, size, count))
        return tensor(first, size, last), tensor(first, count, last), at

    agree_at(reduced, [of(2, 4, 3, 6), of(1, 1, 1, 1), of(3, 13, 7, 5)])


def written(x: torch.Tensor, at: torch.Tensor, row: torch.Tensor) -> Any:
    return x.put(at, row), x.put(at * 0 - 1, row, accumulate=True)


def test_elements_are_put_among_all() -> None:
    def of(rows: int, columns: int, count: int) -> tuple[torch.Tensor, ...]:
        places = np.random.default_rng(count).permutation(rows * columns)[:count] - rows * columns // 2
        return tensor(rows, columns), torch.from_numpy(places), tensor(count)

    agree_at(written, [of(3, 5, 4), of(1, 1, 1), of(7, 13, 40)])


def on_diagonals(x: torch.Tensor) -> Any:
    return (
        x.diagonal_scatter(x.diagonal() * 2 + 1),
        x.diagonal_scatter(x.diagonal(1, 0, 2) * 3, 1, 0, 2),
        x.diagonal_scatter(x.diagonal(-1, 2, 1) * 4, -1, 2, 1),
    )


def test_diagonals_are_written() -> None:
    agree_at(on_diagonals, [(tensor(3, 4, 5),), (tensor(2, 7, 3),), (tensor(13, 5, 11),)])


def stepped(x: torch.Tensor) -> Any:
    rows, columns = x.shape
    return (
        torch.as_strided(x, (rows - 1, columns), (columns, 1), columns),
        torch.as_strided(x, (columns, rows), (1, columns)),
        torch.as_strided(x, (2, 3), (1, 1), 2),
    )


def test_strides_lead_through_a_tensor() -> None:
    agree_at(stepped, [(tensor(3, 4),), (tensor(4, 5),), (tensor(13, 7),)])


def test_strides_that_lead_outside_are_refused_when_the_program_runs() -> None:
    machine = machine_of(exported(lambda x: torch.as_strided(x, (2, 3), (4, 1), 1), tensor(3, 4)))
    with pytest.raises(VMError, match="the strides lead outside of the tensor"):
        machine.run(tensor(2, 3).numpy())


def test_strides_through_what_is_no_row_in_memory_are_refused() -> None:
    import vmkit

    program = exported(lambda x: torch.as_strided(x.mT, (2, 2), (1, 1)), tensor(3, 4))
    with pytest.raises(UnsupportedOperatorError, match="whose elements are not one after the other"):
        vmkit.compile(program)


def as_bits(x: torch.Tensor, whole: torch.Tensor) -> Any:
    halves = x.to(torch.float16)
    return (
        x.view(torch.int32), x.view(torch.uint8), x.view(torch.int64), x.view(torch.float16).view(torch.int16),
        halves.view(torch.int16), halves.view(torch.int32), (x > 0).view(torch.uint8), whole.view(torch.int8),
        whole.view(torch.float64), whole.view(torch.int32).view(torch.int64), x[0, 0].view(torch.int32),
        x.to(torch.bfloat16).view(torch.int16),
        halves.view(torch.bfloat16).float().abs() < 1,
    )  # fmt: skip


def test_bits_are_elements_of_another_type() -> None:
    given = [(tensor(3, 4), torch.arange(6) - 3), (tensor(2, 6), torch.arange(3)), (tensor(7, 26), torch.arange(5))]
    agree_at(as_bits, given)


def scaled(x: torch.Tensor) -> Any:
    least, most = x.min().item(), x.max().item()
    return x * least, x + most, x / (most - least + 1.0), (x > least).sum(), (x.double() * most).sum()


def test_fractions_are_read_from_tensors() -> None:
    agree_at(scaled, [(tensor(3, 4),), (tensor(1, 1),), (tensor(13, 7),)])


def bags(at: torch.Tensor, table: torch.Tensor) -> Any:
    return tuple(F.embedding_bag(at, table, mode=mode, padding_idx=1) for mode in ("sum", "mean", "max"))


def test_a_row_of_a_table_belongs_to_no_bag() -> None:
    def of(rows: int, columns: int) -> tuple[torch.Tensor, ...]:
        return torch.arange(rows * columns).reshape(rows, columns) % 3, tensor(6, 5)

    agree_at(bags, [of(3, 4), (torch.ones(2, 2, dtype=torch.int64), tensor(6, 5)), of(13, 2)])


def sampled(volume: torch.Tensor, grid: torch.Tensor) -> Any:
    return (
        *(F.grid_sample(volume, grid, padding_mode=mode) for mode in ("zeros", "border", "reflection")),
        F.grid_sample(volume, grid, align_corners=True),
        F.grid_sample(volume, grid, mode="nearest"),
    )


def test_volumes_are_read_at_places_of_a_grid() -> None:
    shapes = [
        ((2, 3, 4, 5, 6), (2, 3, 2, 4, 3)),
        ((1, 1, 3, 2, 2), (1, 2, 2, 2, 3)),
        ((3, 2, 7, 5, 3), (3, 5, 2, 3, 3)),
    ]
    agree_at(sampled, [(tensor(*a), tensor(*b) * 0.8) for a, b in shapes])


def sized(x: torch.Tensor, y: torch.Tensor) -> Any:
    least, most = torch.sym_min(x.shape[0], y.shape[0]), torch.sym_max(x.shape[1], y.shape[1])
    return x[:least] * 2, x.new_zeros(least, most), F.pad(y, (0, most - y.shape[1]))


def test_sizes_are_the_least_and_the_most_of_others() -> None:
    given = [((3, 4), (5, 6)), ((7, 13), (2, 3)), ((2, 2), (2, 3))]
    agree_at(sized, [(tensor(*a), tensor(*b)) for a, b in given])
