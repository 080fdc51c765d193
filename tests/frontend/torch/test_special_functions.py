"""Functions of gamma, Bessel and error, and of integers and bits, beside PyTorch's: at ends, poles and between."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import agree_at, exported, machine_of, torch
from vmkit.errors import UnsupportedOperatorError

INF, NAN = float("inf"), float("nan")
SPREAD = [-INF, -1e4, -20.5, -3.5, -2.0, -1.0, -0.3, -1e-5, -0.0, 0.0, 1e-5, 0.2, 0.5, 1.0, 1.5, 2.0, 3.7]
NUMBERS = torch.tensor([*SPREAD, 7.9, 19.9, 20.1, 33.0, 88.0, 90.0, 1e4, 3e38, INF, NAN])
MANY = torch.linspace(-30, 30, 1201)
UNIT = torch.cat([torch.linspace(-1, 1, 301), torch.tensor([1 - 6e-8, -1 + 6e-8, 1e-30, 1.5, NAN])])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["lgamma", "digamma", "i0", "special.i0e", "special.i1", "special.i1e"])
def test_functions_are_pytorchs_everywhere(name: str, dtype: torch.dtype) -> None:
    function = getattr(torch.special, name[8:]) if "." in name else getattr(torch, name)
    numbers = NUMBERS
    if "i" in name.split(".")[-1][:1]:
        numbers = numbers[numbers.abs() < 86]  # PyTorch's give NaN at infinity, and overflow early
    given = [(numbers.to(dtype),), (MANY.to(dtype),)]
    # Near zeros, and where nearly nothing is between two poles, relative digits are PyTorch's own to lose.
    agree_at(
        function, given, rtol=2e-5 if dtype is torch.float32 else 1e-9, atol=1e-6 if dtype is torch.float32 else 1e-11
    )


def test_the_inverse_of_erf_has_its_ends() -> None:
    agree_at(torch.erfinv, [(UNIT,), (UNIT[:7],)], rtol=2e-6, atol=0)
    agree_at(torch.erfinv, [(UNIT.double(),), (UNIT[:7].double(),)], rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_next_after_steps_over_zero_and_to_infinity(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    a = torch.tensor([0.0, 0.0, -0.0, 1.0, 1.0, -1.0, 2.0, most, -most, INF, NAN, 1.0, 1e-45, 3.0], dtype=dtype)
    b = torch.tensor([1.0, -1.0, 0.0, 2.0, 0.0, 0.0, 2.0, INF, -INF, 0.0, 1.0, NAN, 0.0, -INF], dtype=dtype)
    program = exported(torch.nextafter, a, b)
    made = vmkit.VirtualMachine(vmkit.compile(program), "cpu").run(a.numpy(), b.numpy()).numpy()
    np.testing.assert_array_equal(made, torch.nextafter(a, b).numpy())
    with pytest.raises(UnsupportedOperatorError, match="steps through numbers of bfloat16"):
        vmkit.compile(exported(torch.nextafter, a[:3].bfloat16(), b[:3].bfloat16()))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8], ids=str)
def test_divisors_and_multiples_of_all_signs(dtype: torch.dtype) -> None:
    drawn = np.random.default_rng(0).integers(0, 12, (2, 7, 5))
    a, b = (torch.from_numpy(each).to(dtype) for each in drawn)
    if dtype is not torch.uint8:
        a, b = a - 5, 6 - b
    given = [(a, b), (a[:1, :3], b[:1, :3])]
    agree_at(
        lambda x, y: (torch.gcd(x, y), torch.lcm(x, y), torch.gcd(x, y[0]), torch.lcm(x[0], y)), given, rtol=0, atol=0
    )


def test_the_least_integer_divides_as_others_do() -> None:
    machine = machine_of(exported(lambda x, y: (torch.gcd(x, y), torch.lcm(x, y)), torch.arange(4), torch.arange(4)))
    least = np.iinfo("int64").min
    divisors, multiples = machine.run(np.array([least, least, least]), np.array([3, 24, 1 << 62]))
    assert divisors.numpy().tolist() == [1, 8, 1 << 62]
    assert multiples.numpy()[2] == least  # of 64 bits: the true one is its opposite
