"""Quantized tensors of programs: values beside those of the kernels of PyTorch, at other sizes than the example's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.frontend.torch.programs import AUTO, Of, agree_at, tensor, torch

pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this release of torch has no quantized_decomposed")
KNOWN = torch.ops.quantized_decomposed
TWO = {0: AUTO, 1: AUTO}


def agree(function: Callable[..., object], *axes: dict[int, object], wide: int = 4) -> None:
    """Check a function of a matrix at three sizes, and at ends, halves and zeros."""
    edges = torch.tensor([[0.5, 1.5, 2.5, -0.5], [-1.5, 1e9, -1e9, 0.0], [12.8, -12.75, 12.7, 25.5]])
    given = [(tensor(3, wide),), (tensor(1, wide),), (tensor(13, wide) * 9,), (edges,), (torch.zeros(2, wide),)]
    program = torch.export.export(Of(function).eval(), given[0], dynamic_shapes=(axes or (TWO,),))
    agree_at(function, given, program=program, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("scale", "zero_point", "least", "most", "dtype"),
    [(0.1, 3, 0, 255, torch.uint8), (0.07, -5, -128, 127, torch.int8), (1.0, 0, -7, 9, torch.int8)],
)
def test_tensors_are_quantized_as_pytorch_does(
    scale: float, zero_point: int, least: int, most: int, dtype: torch.dtype
) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        bounds = (least, most, dtype)
        made = KNOWN.quantize_per_tensor.default(x, scale, zero_point, *bounds)
        return [made, KNOWN.dequantize_per_tensor.default(made, scale, zero_point, *bounds)]

    agree(function)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("kind", ["choose_qparams", "choose_qparams_symmetric"])
def test_scales_are_found_when_it_runs(kind: str, dtype: torch.dtype) -> None:
    bounds = (0, 255, dtype) if dtype is torch.uint8 else (-128, 127, dtype)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        scale, zero_point = getattr(KNOWN, kind).tensor(x, *bounds[:2], 1e-5, dtype)
        made = KNOWN.quantize_per_tensor.tensor(x, scale, zero_point, *bounds)
        return [scale, zero_point, made, KNOWN.dequantize_per_tensor.tensor(made, scale, zero_point, *bounds)]

    agree(function)


def test_bounds_may_be_tensors() -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        given = (torch.tensor(0.3), torch.tensor(2), torch.tensor(-20), torch.tensor(30), torch.int8)
        made = KNOWN.quantize_per_tensor.tensor2(x, *given)
        return [made, KNOWN.dequantize_per_tensor.tensor2(made, *given)]

    agree(function)


@pytest.mark.parametrize("axis", [0, 1])
def test_each_channel_has_its_scale(axis: int) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        scales, zero_points = torch.tensor([0.1, 0.7, 1.0, 0.03]), torch.tensor([3, 0, -9, 1])
        rest = (scales, zero_points, axis, -128, 127, torch.int8)
        x = x if axis else x.T
        made = KNOWN.quantize_per_channel.default(x, *rest)
        without = KNOWN.dequantize_per_channel.default(made, scales, None, *rest[2:])
        return [made, KNOWN.dequantize_per_channel.default(made, *rest), without]

    agree(function, {0: AUTO})


@pytest.mark.parametrize("kind", ["choose_qparams_per_token", "choose_qparams_per_token_asymmetric"])
def test_each_row_has_its_scale(kind: str) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        scales, zero_points = getattr(KNOWN, kind).default(x, torch.int8)
        rest = (scales, zero_points, -128, 127, torch.int8)
        made = KNOWN.quantize_per_token.default(x, *rest)
        return [scales, zero_points, made, KNOWN.dequantize_per_token.default(made, *rest, torch.float32)]

    agree(function)


def test_a_quantized_network_of_dynamic_sizes() -> None:
    generator = torch.Generator().manual_seed(5)
    weight = torch.randint(-128, 128, (5, 3, 3, 3), generator=generator).to(torch.int8)
    scales, zero_points = torch.rand(5, generator=generator) * 0.01 + 0.001, torch.zeros(5, dtype=torch.int64)

    def function(x: torch.Tensor) -> torch.Tensor:
        held = KNOWN.quantize_per_tensor.default(x, 0.03, 120, 0, 255, torch.uint8)
        x = KNOWN.dequantize_per_tensor.default(held, 0.03, 120, 0, 255, torch.uint8)
        w = KNOWN.dequantize_per_channel.default(weight, scales, zero_points, 0, -128, 127, torch.int8)
        made = torch.nn.functional.conv2d(x, w, padding=1).relu()
        held = KNOWN.quantize_per_tensor.default(made, 0.01, 0, 0, 255, torch.uint8)
        return KNOWN.dequantize_per_tensor.default(held, 0.01, 0, 0, 255, torch.uint8).mean((2, 3))

    given = [(tensor(2, 3, 8, 6),), (tensor(1, 3, 1, 1),), (tensor(3, 3, 13, 17),)]
    program = torch.export.export(Of(function).eval(), given[0], dynamic_shapes=(({0: AUTO, 2: AUTO, 3: AUTO},),))
    agree_at(function, given, program=program, atol=2e-3)  # what is between two steps may be rounded to either


def test_a_file_is_read_by_who_did_not_quantize_it(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return KNOWN.quantize_per_tensor.default(x, 0.1, 3, 0, 255, torch.uint8)

    torch.export.save(torch.export.export(Of(function).eval(), (tensor(3, 4),)), tmp_path / "model.pt2")
    script = (
        "import sys, pathlib, vmkit\nfrom vmkit.frontend.torch import from_pt2\n"
        "print('main' in [v.name_hint for v in from_pt2(pathlib.Path(sys.argv[1])).get_global_vars()])"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "model.pt2")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "True", ran.stderr
