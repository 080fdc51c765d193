"""Exported programs whose inputs have sizes that are multiples of others."""

from __future__ import annotations

import numpy as np
import pytest

import vmkit
from vmkit.errors import VMError

from .programs import Of, agree_at, machine_of, tensor

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[torch]'")


class Halved(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, 2, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.conv(x).flatten(2).transpose(1, 2), y[:, 1::2]


def test_sizes_that_are_multiples_of_others() -> None:
    batch, tiles, pairs = (torch.export.Dim(name, min=1, max=20) for name in ("batch", "tiles", "pairs"))
    model = Halved().eval()
    shapes = ({0: batch, 2: 8 * tiles}, {0: batch, 1: 2 * pairs + 1})
    program = torch.export.export(model, (torch.randn(2, 3, 16, 24), torch.randn(2, 9)), dynamic_shapes=shapes)
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu")
    for n, height, columns in ((2, 16, 9), (3, 24, 11), (1, 160, 21)):
        x, y = torch.randn(n, 3, height, 24), torch.randn(n, columns)
        with torch.no_grad():
            expected = model(x, y)
        for result, wanted in zip(machine.run(x.numpy(), y.numpy()), expected, strict=True):
            np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-4)
    y = np.zeros((2, 9), "float32")
    with pytest.raises(VMError, match=r"\(17 vs. 16\)"):
        machine.run(np.zeros((2, 3, 17, 24), "float32"), y)
    with pytest.raises(VMError, match="not in the range 8 to 160"):
        machine.run(np.zeros((2, 3, 168, 24), "float32"), y)


N = torch.export.Dim("n", min=1, max=50)
WEIGHT = tensor(3, 3, 3, 3)


def _layers(x: torch.Tensor) -> torch.Tensor:
    kept = torch.nn.functional.elu(x).abs()
    return torch.nn.functional.elu(torch.nn.functional.interpolate(kept[:, :, ::2, ::2], scale_factor=2)) + x


@pytest.mark.parametrize(
    ("function", "axes", "shapes"),
    [
        (lambda x: torch.nn.functional.elu(x.abs()).abs(), {0: 2 * N}, [(6,), (8,), (2,)]),
        (lambda x: torch.nn.functional.elu(x.abs()).abs(), {0: 2 * N + 1}, [(7,), (9,), (3,)]),
        (lambda x: torch.nn.functional.elu(x.view(-1, 2)).sum(1).abs(), {0: 2 * N}, [(6,), (14,)]),
        (lambda x: torch.special.i0(torch.lgamma(x.abs() + 1)).abs(), {0: 3 * N}, [(6,), (9,)]),
        (_layers, {2: 8 * N, 3: 8 * N}, [(1, 3, 16, 16), (1, 3, 24, 24), (1, 3, 8, 8)]),
        (
            lambda x: torch.nn.functional.elu(torch.nn.functional.conv2d(x, WEIGHT, stride=2, padding=1)).abs(),
            {2: 8 * N, 3: 8 * N},
            [(1, 3, 16, 16), (1, 3, 24, 24)],
        ),
    ],
)
def test_kernels_over_such_sizes_are_computed_together(function, axes, shapes) -> None:  # type: ignore[no-untyped-def]
    given = [(tensor(*shape),) for shape in shapes]
    program = torch.export.export(Of(function), given[0], dynamic_shapes=((axes,),))
    agree_at(function, given, program=program)


def test_the_sizes_of_one_input_follow_from_those_of_another() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.nn.functional.elu(x.abs()) + y[: x.shape[0]], torch.nn.functional.elu(y).abs()

    given = [(tensor(2 * n), tensor(4 * n)) for n in (3, 5, 1)]
    program = torch.export.export(Of(function), given[0], dynamic_shapes=(({0: 2 * N}, {0: 4 * N}),))
    agree_at(function, given, program=program)
    with pytest.raises(VMError, match=r"\(10 vs. 12\)"):
        machine_of(program).run(np.zeros(6, "float32"), np.zeros(10, "float32"))
