"""What is counted and grouped in programs of PyTorch, the sizes of results being known when they run alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.torch.programs import agree_at, exported, machine_of, tensor, torch
from vmkit.errors import VMError


def whole(*shape: int, most: int = 5) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).integers(0, most, shape))


def test_numbers_are_counted_up_to_the_largest_that_occurs() -> None:
    given = [(whole(12), tensor(12)), (whole(31, most=9), tensor(31)), (whole(2, most=1), tensor(2))]
    agree_at(lambda x, w: (torch.bincount(x), torch.bincount(x, w), torch.bincount(x, minlength=7)), given)


LARGEST = np.iinfo("int64").max


@pytest.mark.parametrize(
    ("function", "example", "given", "why"),
    [
        (torch.bincount, (whole(12),), ([1, -1, 2],), "there is a number below 0"),
        (torch.bincount, (whole(12),), ([LARGEST],), "there is a number below 0, or too large"),
        (torch.bincount, (whole(12),), ([LARGEST - 1],), "more elements than a tensor can have"),
        (torch.bincount, (whole(12), whole(12)), ([1, 2, 3], [1]), "3 numbers are counted, and there are 1 weights"),
        (torch.repeat_interleave, (whole(12),), ([5, -3],), "a number of repetitions is below 0"),
        (torch.repeat_interleave, (whole(12),), ([1 << 62] * 4 + [3],), "a number of repetitions is .* too large"),
        (torch.repeat_interleave, (whole(12),), ([1 << 60],), "more elements than a tensor can have"),
        (lambda x: torch.histc(x.float().log()), (whole(12),), ([0, 2],), "the range of the elements is not finite"),
        (lambda x: torch.histc(x.float().log()), (whole(12),), ([-1, 2],), "the range of the elements is not finite"),
        (lambda x: torch.mode(x), (whole(12),), ([],), "nothing is along axis 0"),
    ],
)
def test_what_pytorch_raises_an_error_for_is_one(function: Any, example: Any, given: Any, why: str) -> None:
    machine = machine_of(exported(function, *example))
    with pytest.raises(VMError, match=why):
        machine.run(*(np.array(each, "int64") for each in given))


def test_histograms_have_their_ends_or_those_of_the_data() -> None:
    given = [(tensor(3, 4),), (tensor(13, 5),), (torch.ones(2, 3),)]
    agree_at(lambda x: (torch.histc(x, 5, -1, 1), torch.histc(x, 4), torch.histc(x.double(), 3, 0, 1)), given, atol=0)


def test_the_most_frequent_is_the_least_of_several() -> None:
    def function(x: torch.Tensor) -> Any:
        values = torch.mode(x, 1).values
        # Which of equal elements PyTorch names is not said; it names one that has the value.
        return values, torch.mode(x, 0, keepdim=True).values, torch.gather(x, 1, torch.mode(x, 1, True).indices)

    agree_at(function, [(whole(3, 8),), (whole(7, 13, most=4),), (whole(2, 2),)])


def test_runs_of_equal_elements() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.unique_consecutive(x), *torch.unique_consecutive(x, return_inverse=True, return_counts=True)

    agree_at(function, [(whole(3, 8, most=2),), (whole(1, 31, most=2),)])


def test_rows_are_repeated_as_often_as_a_tensor_says() -> None:
    def function(x: torch.Tensor, n: torch.Tensor) -> Any:
        return x.repeat_interleave(n, 0), torch.repeat_interleave(n)

    agree_at(function, [(tensor(4, 3), torch.tensor([1, 2, 0, 3])), (tensor(2, 5), torch.tensor([0, 7]))])


def test_quantiles() -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.quantile(x, 0.3, dim=1), torch.quantile(x, torch.tensor([0.25, 0.5, 1.0]), dim=0)

    agree_at(function, [(tensor(3, 4),), (tensor(13, 7),), (tensor(2, 2),)])
