"""Complex numbers within programs of PyTorch: spectra and rotations of signals whose lengths only a run knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import AUTO, Of, exported, tensor, torch
from vmkit.errors import UnsupportedOperatorError

F = torch.nn.functional


def spectra(x: torch.Tensor, y: torch.Tensor) -> Any:
    whole = torch.fft.fft(x)
    return (
        torch.view_as_real(whole),
        *(torch.view_as_real(torch.fft.rfft(x, norm=norm)) for norm in ("backward", "ortho", "forward")),
        *(torch.fft.ifft(whole, norm=norm).real for norm in ("backward", "ortho", "forward")),
        torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
        torch.view_as_real(torch.fft.rfft2(x)),
        torch.fft.fftn(x, dim=(1, 2)).real,
        torch.fft.irfft(torch.fft.rfft(x)[:, :, 1:4] * torch.fft.rfft(y)[:, :, 1:4], n=6),
        torch.angle(whole[:, :1, 1:4]),
        torch.view_as_real((whole - x).conj() / (whole + 3)),
    )


def rotated(x: torch.Tensor, y: torch.Tensor) -> Any:
    rows = x.shape[1]
    angles = torch.outer(torch.arange(rows), 1 / 100 ** (torch.arange(0, 6, 2) / 6))
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(y.reshape(y.shape[0], y.shape[1], -1, 2))
    return (
        torch.view_as_real(pairs * turns[None]).flatten(2),
        torch.view_as_real(torch.complex(x, x * 2).sum(1)).sum(0),
        (pairs * 2).abs(),
        torch.view_as_real(F.pad(pairs, (1, 2))),
        torch.view_as_real(torch.cat([pairs, pairs.conj()], 1).transpose(0, 1)),
    )


def frames(x: torch.Tensor) -> Any:
    return torch.stft(x, 16, 4, 12, torch.hann_window(12), return_complex=True).abs() ** 2


CASES = [
    (spectra, [(2, 4, 9), (2, 4, 9)], [(3, 5, 8), (3, 5, 8)]),
    (rotated, [(2, 4, 9), (2, 4, 6)], [(3, 7, 5), (3, 7, 6)]),
    (frames, [(2, 64)], [(3, 101)]),
]


@pytest.mark.parametrize(("function", "example", "others"), CASES, ids=[case[0].__name__ for case in CASES])
def test_results_are_those_of_torch(
    function: Callable[..., Any], example: list[tuple[int, ...]], others: list[tuple[int, ...]]
) -> None:
    given = [tensor(*shape) for shape in example]
    if function is rotated:
        axes = ({0: AUTO, 1: AUTO, 2: AUTO}, {0: AUTO, 1: AUTO})
        program = torch.export.export(Of(function), tuple(given), dynamic_shapes=(axes,))
    else:
        program = exported(function, *given)
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    for shapes in (example, others):
        given = [tensor(*shape) for shape in shapes]
        made, expected = machine.run(*(each.numpy() for each in given)), function(*given)
        pairs = [(made, expected)] if isinstance(expected, torch.Tensor) else zip(made, expected, strict=True)
        for at, (one, other) in enumerate(pairs):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-3, atol=1e-4, err_msg=f"result {at}")


class Rotary(torch.nn.Module):
    """Weights, inputs and results of complex numbers."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(16.0), torch.tensor([1.0, 0.1, 0.01]))
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
        self.weight = torch.nn.Parameter(torch.complex(tensor(3, 2), tensor(2, 3).T))

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> Any:
        turned = torch.view_as_complex(x.reshape(x.shape[0], x.shape[1], 3, 2)) * self.turns[: x.shape[1]]
        large, chosen = (c * 1e30).abs(), torch.where(c.abs() > 1, c, c * 2)
        return turned, (turned @ self.weight).abs(), c * self.turns[1] + 1j, c.exp(), large, chosen, c.log(), c[0]


def test_complex_numbers_are_taken_held_and_given_by_their_parts() -> None:
    def numbers(rows: int) -> torch.Tensor:
        return torch.complex(tensor(rows, 3), tensor(3, rows).T)

    module = Rotary()
    example = (tensor(2, 4, 6), numbers(5))
    program = torch.export.export(module, example, dynamic_shapes=({0: AUTO, 1: AUTO}, {0: AUTO}))
    executable = vmkit.compile(program)
    assert executable.inputs[1].dtype == "float32" and executable.inputs[1].shape[1:] == (3, 2)
    machine = vmkit.VirtualMachine(executable, "cpu")
    for batch, length, rows in ((2, 4, 5), (1, 7, 1), (3, 1, 11)):
        x, c = tensor(batch, length, 6), numbers(rows)
        made = machine.run(x.numpy(), torch.view_as_real(c).numpy())
        for one, other in zip(made, module(x, c), strict=True):
            expected = torch.view_as_real(other) if other.is_complex() else other
            np.testing.assert_allclose(one.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: F.pad(torch.fft.fft(x), (1, 1), value=2.0).real, "pads complex numbers with another number than 0"),
        (lambda x: torch.fft.fft(x).tan().real, "takes complex numbers, for which it has no converter"),
    ],
)
def test_what_is_not_taken_is_refused_by_its_node(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=why):
        vmkit.compile(exported(function, tensor(3, 8)))
