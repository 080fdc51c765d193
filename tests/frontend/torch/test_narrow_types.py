"""Programs whose elements have 16 bits, or 64, and those where PyTorch mixes types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.frontend.torch.programs import AUTO, Of, machine_of, tensors_of, torch

functional = torch.nn.functional


def as_array(tensor: torch.Tensor) -> Any:
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def agree(module: Any, x: torch.Tensor, sizes: tuple[int, ...], rtol: float) -> None:
    """Check a module's program at batches of other sizes than the example's."""
    axes = (({0: AUTO},),) if isinstance(module, Of) else ({0: AUTO},)
    machine = machine_of(torch.export.export(module, (x,), dynamic_shapes=axes))
    for size in sizes:
        given = torch.rand(size, *x.shape[1:]).to(x.dtype)
        with torch.no_grad():
            expected = tensors_of(module(given))
        made = machine.run(as_array(given))
        found = made if len(expected) > 1 else [made]
        for one, other in zip(found, expected, strict=True):
            other = other.detach()
            got = one.numpy()
            assert tuple(got.shape) == tuple(other.shape)
            assert str(got.dtype) in (str(other.dtype).removeprefix("torch."), "float32")
            scale = float(other.abs().max())
            np.testing.assert_allclose(got.astype("float64"), other.double().numpy(), rtol=rtol, atol=rtol * scale)


class Layers(torch.nn.Module):
    """Convolutions both ways, products with and without a sum, normalizations."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.up = torch.nn.Conv2d(2, 4, 3), torch.nn.ConvTranspose2d(4, 6, 2, 2, groups=2, output_padding=1)
        self.volume, self.raised = torch.nn.Conv3d(1, 2, 2, stride=2), torch.nn.ConvTranspose3d(2, 2, (2, 3, 2), 2)
        self.linear, self.norm = torch.nn.Linear(5, 3), torch.nn.LayerNorm(3)
        self.batch = torch.nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> Any:
        rows = x[:, 0, :, :5].flatten(0, 1)
        return (
            self.up(self.batch(self.conv(x)).relu()),
            self.raised(self.volume(x[:, :1, None].repeat(1, 1, 4, 1, 1))),
            self.norm(self.linear(rows)),
            torch.addmm(rows[:1, :1], rows, rows[:5], beta=2, alpha=0.5),
            torch.baddbmm(x[:, 0, :5, :5], x[:, 0, :5, :5], x[:, 1, :5, :5], alpha=3),
        )


RTOL = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-12}


@pytest.mark.parametrize("dtype", RTOL, ids=str)
def test_layers(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    agree(Layers().eval().to(dtype), torch.rand(2, 2, 6, 7).to(dtype), (1, 5), RTOL[dtype])


SUMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "running": lambda x: (x.cumsum(-1), (x + 0.5).cumprod(-1)),
    "norms": lambda x: (x.norm(dim=-1), functional.layer_norm(x, (x.shape[-1],))),
    "groups": lambda x: functional.group_norm(x, 2),
    "instances": functional.instance_norm,
    "shares": lambda x: x.softmax(-1),
    "logarithms of shares": lambda x: x.log_softmax(-1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_of_more_bits_than_elements(name: str) -> None:
    agree(Of(SUMS[name]), torch.rand(2, 4, 2000).to(torch.bfloat16), (1, 3), 1e-2)


class Autocast(torch.nn.Module):
    """What runs in 16 bits where weights have 32."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype, self.linear, self.norm = dtype, torch.nn.Linear(8, 16), torch.nn.LayerNorm(16)
        self.conv = torch.nn.Conv1d(16, 4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=self.dtype):
            made = self.norm(self.linear(x)).softmax(-1)
            return made, self.conv(made.mT), x * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    agree(Autocast(dtype).eval(), torch.rand(2, 6, 8), (1, 5), RTOL[dtype])


def test_images_by_instance_of_any_number() -> None:
    agree(Of(functional.instance_norm), torch.rand(2, 4, 5, 6), (1, 7), 1e-4)
