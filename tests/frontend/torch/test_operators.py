"""Operators of PyTorch whose converters are vmkit's: sizes dynamic, results PyTorch's at the example's and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import vmkit
from tests.frontend.torch.programs import AUTO, Of, exported, tensor, torch
from vmkit.errors import UnsupportedOperatorError, VMError

F = torch.nn.functional


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


def ends(x: torch.Tensor, y: torch.Tensor) -> Any:
    copied, filled = x.clone(), y.clone()
    copied[:, 1:3], filled[:, -1] = 0.0, 1.0
    return (
        x[..., -1],
        x[:, -2],
        x.select(0, x.shape[0] - 1),
        copied,
        filled,
        torch.slice_scatter(x, y[:, :2], 1, 0, 4, 2),
        torch.slice_scatter(x, y[:, :, -2:], 2, -2),
        torch.where(x > 0, x, y.long()),
        torch.triu_indices(4, 3) + x.shape[0],
        torch.tril_indices(3, 4, offset=-1) + x.shape[1],
    )


def mapped(x: torch.Tensor, y: torch.Tensor) -> Any:
    none = torch.where(x > 0.5, float("nan"), torch.where(x < -1, float("inf"), x))
    whole, few = (x * 9).long(), (y.abs() * 3).long()
    return (
        torch.erfc(x * 4),
        torch.exp2(x),
        torch.hypot(x * 1e30, y * 1e30),
        torch.hypot(none, y),
        torch.logaddexp(x, none),
        torch.fmax(none, none),
        whole << 2,
        few << few,
        whole >> few,
        torch.bitwise_right_shift(whole, 1),
        torch.logcumsumexp(x * 30, 1),
        *torch.cummax(none, 1),
        *torch.cummin(whole, -1),
        torch.signbit(torch.stack([x, torch.copysign(torch.zeros_like(x), y), -x])),
        torch.copysign(x, -y),
        torch.fmax(none, y),
        torch.fmin(y, none),
        torch.ldexp(x, whole),
        F.selu(x),
        F.celu(x, 0.4),
        F.elu(x, 1.7),
        torch.bitwise_left_shift(whole, few),
        torch.bitwise_right_shift(whole, few),
        torch.heaviside(x, y),
        torch.isfinite(none),
        torch.isnan(none),
        none != none,
        torch.where(none == none, none, 0),
        torch.maximum(none, y),
        (x > 0) == (y > 0),
        (x > 0) * (y > 0),
        (x > 0) > (y > 0),
    )


def windows(image: torch.Tensor) -> Any:
    largest, at = F.max_pool2d(image, 3, 2, 1, return_indices=True)
    single, where = F.max_pool2d(image, 2, return_indices=True)
    return (
        largest,
        at,
        F.max_unpool2d(single, where, 2),
        F.adaptive_max_pool2d(image, (3, 2)),
        F.adaptive_max_pool2d(image[0], 1),
        F.avg_pool2d(image, 2, divisor_override=3),
        F.avg_pool2d(image, 3, 2, 1, ceil_mode=True, divisor_override=5),
        F.group_norm(image, 1),
        *torch.var_mean(image, (2, 3)),
        F.interpolate(image, size=(5, 4), mode="bilinear", antialias=True),
        F.interpolate(image, scale_factor=0.4, mode="bilinear", antialias=True),
        F.interpolate(image, size=(4, 11), mode="bicubic", antialias=True),
        F.interpolate(image, scale_factor=0.5, mode="area"),
    )


def placed(x: torch.Tensor, y: torch.Tensor) -> Any:
    ascending, at = y.sort(1)[0], (x.abs() * 2).long()[:, :4]
    bags = torch.tensor([0, 2, 2, 5])
    table = torch.cat([y, y + 1, y * 2, y - 3])
    return (
        torch.searchsorted(ascending, x),
        torch.searchsorted(ascending, y, right=True, out_int32=True),
        torch.searchsorted(x, y, sorter=x.argsort(1)),
        *torch.kthvalue(x, 3, 1),
        *torch.kthvalue(x, 2, 0, keepdim=True),
        *(F.embedding_bag(at, table, mode=mode) for mode in ("sum", "mean", "max")),
        *(F.embedding_bag(at.flatten()[:7], table, bags, mode=mode) for mode in ("sum", "mean", "max")),
        F.embedding_bag(at, table, mode="sum", per_sample_weights=x[:, :4]),
        x[x > 0],
        x[:, y[0, :1].repeat(x.shape[1]) > 0],
        torch.stack([x, -x])[:, x > 0.5],
        torch.masked_select(x, x < 0),
        *torch.unique((x * 2).long(), return_inverse=True, return_counts=True),
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
    (ends, [(2, 4, 9), (2, 4, 9)], [(3, 5, 7), (3, 5, 7)]),
    (mapped, [(3, 9), (3, 9)], [(5, 70), (5, 70)]),
    (windows, [(2, 3, 9, 8)], [(3, 2, 12, 14)]),
    (placed, [(3, 9), (3, 7)], [(4, 6), (4, 11)]),
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
            assert one.numpy().dtype == other.numpy().dtype, f"result {at}"
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5, err_msg=f"result {at}")


def test_what_is_not_taken_is_refused_by_its_node() -> None:
    refused = {
        "gives where the largest elements stand": lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True)[1],
        "resizes with antialias and align_corners": lambda x: F.interpolate(
            x, size=(3, 3), mode="bilinear", align_corners=True, antialias=True
        ),
    }
    for why, function in refused.items():
        with pytest.raises(UnsupportedOperatorError, match=rf"node '\w+' \(aten.*\) {why}"):
            vmkit.compile(exported(function, tensor(2, 3, 4, 5)))


def test_a_reflection_of_more_than_there_is_does_not_read_beyond() -> None:
    program = torch.export.export(
        Of(lambda x: F.pad(x, (3, 3), "reflect")), (tensor(2, 9),), dynamic_shapes=(({1: AUTO},),)
    )
    machine = vmkit.VirtualMachine(vmkit.compile(program), "cpu")
    with pytest.raises(VMError, match="not in the range"):
        machine.run(tensor(2, 2).numpy())
