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


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x: torch.fft.fft(x), "'_fft_r2c' is a result of complex numbers"),
        (lambda x: F.pad(torch.fft.fft(x), (1, 1), value=2.0).real, "pads complex numbers with another number than 0"),
        (lambda x: torch.fft.fft(x).exp().real, "takes complex numbers, for which it has no converter"),
    ],
)
def test_what_is_not_taken_is_refused_by_its_node(function: Callable[..., Any], why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=why):
        vmkit.compile(exported(function, tensor(3, 8)))
