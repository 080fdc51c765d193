"""Elementwise operators of PyTorch on operands of several types: results are PyTorch's, in its types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import Of, torch
from vmkit.errors import UnsupportedOperatorError
from vmkit.frontend.torch import arithmetic

X, Y = torch.tensor([-7, -1, 0, 1, 5, 8, 9]), torch.tensor([2, -3, 5, 1, -2, 3, -4])
"""Integers, among them ones that a number with a fraction lies beside."""
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "integers and numbers": lambda x, y: (x / 2, x + 0.5, 1.5 - x, x * 2.5, 7 / y, x // 2.5, 2.0**x, (x * x) ** 0.5),
    "quotients": lambda x, y: (
        x / y, x // 2, 7 // y, x // y, torch.div(x, -3, rounding_mode="trunc"), torch.div(x, 4, rounding_mode=None),
        torch.div(x, y, rounding_mode="trunc"), torch.div(x.float(), -2.5, rounding_mode="trunc"),
        torch.div(x.half(), y.float(), rounding_mode="floor"), x.int() // y, (x > 2) / 3,
    ),
    "factors": lambda x, y: (
        torch.add(x, y, alpha=2), torch.sub(x, y, alpha=3), torch.sub(x, 2, alpha=3), torch.rsub(x, y, alpha=2),
        torch.add(x.float(), 1.5, alpha=2), torch.add(x.int(), y.half(), alpha=0.5),
    ),
    "comparisons": lambda x, y: (x < 1.5, x >= 0.5, x == 0.5, x.float() - 0.5 < y, x > x.shape[0], x.int() != y),
    "functions": lambda x, y: (
        torch.exp(y), torch.sqrt(x * x), torch.sigmoid(x), torch.rsqrt(x * x + 1), torch.maximum(x, y.float()),
        torch.clamp(x, min=0.5, max=7.5), torch.fmod(x, 2.5), torch.remainder(x, 1.5),
    ),
    "sums and products": lambda x, y: (
        (x > 2).sum(), x.int().sum(), x.int().cumsum(0), x.int().cumprod(0), (x > 0).prod(), x[None] @ y[:, None],
        x.mean(dtype=torch.float32),
        x.double()[None] @ y.double()[:, None], x.half()[None] @ y.half()[:, None],
    ),
    "sizes": lambda x, y: (x.float() * x.shape[0] + y / x.shape[0], x * x.shape[0], x.shape[0] - y.float()),
    "integers between bounds": lambda x, y: (
        x.clamp(min=1), x.clamp(max=y.shape[0] - 3), x.clamp(0, 2), x.clamp(x.shape[0] - 5), x.clamp(0.5, None),
    ),
}  # fmt: skip


def compiled(function: Callable[[Any, Any], Any]) -> vmkit.VirtualMachine:
    size = torch.export.Dim("n", min=2, max=99)
    program = torch.export.export(Of(function), (X, Y), dynamic_shapes=(({0: size}, {0: size}),))
    return vmkit.VirtualMachine(vmkit.compile(program, "llvm"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_operands_are_in_one_type_as_in_torch(name: str) -> None:
    machine = compiled(PROGRAMS[name])
    for count in (7, 3):
        x, y = X[:count], Y[:count]
        for at, (made, wanted) in enumerate(zip(machine.run(x.numpy(), y.numpy()), PROGRAMS[name](x, y), strict=True)):
            assert made.dtype == str(wanted.dtype).removeprefix("torch."), at
            np.testing.assert_allclose(made.numpy(), wanted.numpy(), rtol=1e-6, err_msg=str(at))


def test_an_operator_in_a_type_of_other_numbers_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "_OF_RESULT", set())
    with pytest.raises(
        UnsupportedOperatorError, match=r"node 'mul' .* is computed in int64 by TVM's importer, in float32 by PyTorch"
    ):
        compiled(lambda x, y: x * 0.5)
