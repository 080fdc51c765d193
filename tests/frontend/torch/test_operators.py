"""Operators of PyTorch whose converters are vmkit's: sizes dynamic, results PyTorch's at the example's and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vmkit
from vmkit.errors import UnsupportedOperatorError, VMError

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[torch]'")
F = torch.nn.functional
AUTO = torch.export.Dim.AUTO


class Of(torch.nn.Module):
    """A module of a function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def exported(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    axes = tuple(dict.fromkeys(range(arg.ndim), AUTO) for arg in args)
    return torch.export.export(Of(function).eval(), args, dynamic_shapes=(axes,))


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))


def resized(row: torch.Tensor, image: torch.Tensor, other: torch.Tensor, volume: torch.Tensor) -> Any:
    return (
        F.interpolate(row, scale_factor=2),
        F.interpolate(row, scale_factor=1.3, mode="linear"),
        F.interpolate(image, scale_factor=2),
        F.interpolate(image, scale_factor=1.5),
        F.interpolate(image, scale_factor=2.5, mode="nearest-exact"),
        F.interpolate(image, scale_factor=(0.5, 1.7), mode="bilinear"),
        F.interpolate(image, size=other.shape[2:], mode="bilinear", align_corners=True),
        F.interpolate(image, size=other.shape[2:]),
        F.interpolate(image, scale_factor=2, mode="bicubic"),
        F.interpolate(volume, size=(3, 4, 7), mode="trilinear"),
        F.interpolate(volume, scale_factor=3),
    )


def padded(row: torch.Tensor, image: torch.Tensor, volume: torch.Tensor) -> Any:
    return (
        *(F.pad(row, (1, 2), mode) for mode in ("reflect", "replicate", "circular")),
        *(F.pad(image, (1, 2, 2, 0), mode) for mode in ("reflect", "replicate", "circular")),
        *(F.pad(volume, (1, 0, 0, 1, 1, 1), mode) for mode in ("reflect", "replicate", "circular")),
    )


def moved(x: torch.Tensor, y: torch.Tensor) -> Any:
    at = (y > 0).long()
    return (
        x.scatter_add(1, at, y),
        *(x.scatter_reduce(1, at, y, reduction) for reduction in ("sum", "prod", "amax", "amin", "mean")),
        *(x.scatter_reduce(1, at, y, r, include_self=False) for r in ("sum", "prod", "amax", "amin", "mean")),
        torch.select_scatter(x, y[:, 0], 1, 2),
        torch.select_scatter(x, y[:, 0], 1, -1),
        x.masked_scatter(x > 0, y * 2),
        x.repeat(2, 1, 3),
        y[0].repeat(x.shape[0], 1, 1),
        x.unfold(2, 3, 2),
        x.unfold(-1, 2, 1),
        (x > 0.5).nonzero(),
    )


def reduced(x: torch.Tensor, y: torch.Tensor) -> Any:
    whole = (x * 5).long()
    return (
        *x.min(1),
        *x.min(2, keepdim=True),
        x.prod(1),
        whole.prod(-1, keepdim=True),
        (x > 3).any(),
        x.amax((1, 2)),
        x.amin(2, keepdim=True),
        x.var(1),
        x.var(),
        x.std((1, 2), keepdim=True),
        x.var((0, 2), correction=0),
        F.instance_norm(x),
        F.instance_norm(y, weight=torch.ones(3) * 2, bias=torch.arange(3.0)),
        *(torch.div(x, 0.3, rounding_mode=mode) for mode in ("floor", "trunc")),
        *(torch.div(whole, 2, rounding_mode=mode) for mode in ("floor", "trunc")),
        *(torch.div(whole, (y.abs() * 3).long()[:, :1] + 1, rounding_mode=mode) for mode in ("floor", "trunc")),
        torch.cdist(x, x),
        torch.cdist(x, x[:, :1], p=1.0),
    )


def sampled(image: torch.Tensor, grid: torch.Tensor) -> Any:
    return (
        F.grid_sample(image, grid, align_corners=False),
        F.grid_sample(image, grid, mode="nearest", padding_mode="border", align_corners=True),
    )


CASES = [
    (
        resized,
        [(2, 3, 9), (2, 3, 9, 8), (2, 3, 14, 15), (2, 3, 5, 6, 7)],
        [(3, 2, 6), (3, 2, 6, 13), (3, 2, 5, 9), (3, 2, 4, 5, 6)],
    ),
    (padded, [(2, 3, 9), (2, 3, 9, 8), (2, 3, 5, 6, 7)], [(3, 2, 4), (3, 2, 4, 5), (2, 2, 3, 4, 5)]),
    (moved, [(2, 4, 9), (2, 4, 9)], [(3, 5, 7), (3, 5, 7)]),
    (reduced, [(2, 4, 9), (2, 3, 9)], [(3, 5, 7), (3, 3, 7)]),
    (sampled, [(2, 3, 9, 8), (2, 4, 5, 2)], [(3, 2, 5, 6), (3, 7, 6, 2)]),
]


@pytest.mark.parametrize(("function", "example", "others"), CASES, ids=[case[0].__name__ for case in CASES])
def test_results_are_those_of_torch(
    function: Callable[..., Any], example: Sequence[Sequence[int]], others: Sequence[Sequence[int]]
) -> None:
    program = exported(function, *(tensor(*shape) for shape in example))
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    for shapes in (example, others):
        given = [tensor(*shape) for shape in shapes]
        made = machine.run(*(each.numpy() for each in given))
        for at, (one, other) in enumerate(zip(made, function(*given), strict=True)):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"result {at}")


def test_what_is_not_taken_is_refused_by_its_node() -> None:
    with pytest.raises(
        UnsupportedOperatorError, match=r"node '_cdist_forward' \(aten.*\) computes distances of order 3"
    ):
        vmkit.compile(exported(lambda x: torch.cdist(x, x, p=3.0), tensor(2, 3, 4)))


def test_a_reflection_of_more_than_there_is_does_not_read_beyond() -> None:
    program = torch.export.export(
        Of(lambda x: F.pad(x, (3, 3), "reflect")), (tensor(2, 9),), dynamic_shapes=(({1: AUTO},),)
    )
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    with pytest.raises(VMError, match="not in the range"):
        machine.run(tensor(2, 2).numpy())
