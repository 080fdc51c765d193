"""Quantized tensors of PyTorch, ``quantized_decomposed``, over simpler operators: rules by which it decomposes them.

That is what a model holds that ``prepare_pt2e`` and ``convert_pt2e`` made. PyTorch's own kernels read scales that are
tensors as numbers, which no formula of sizes says; here they stay tensors. The arithmetic is that of its kernels: a
number is multiplied by the reciprocal of its scale, and rounded before the zero point is added.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["quantization_rules", "register_quantization"]


def register_quantization() -> Any:  # noqa: ANN401 - PyTorch's table of operators
    """Return the operators, which PyTorch does not know until their module is imported: programs in files have them.

    None where it has no such module.
    """
    import torch

    try:
        import torch.ao.quantization.fx._decomposed
    except ModuleNotFoundError:
        return None  # a release of PyTorch without them, of which no program has any
    return torch.ops.quantized_decomposed


def quantization_rules() -> dict[Any, Callable[..., Any]]:
    """Return the rules by operator."""
    known = register_quantization()
    if known is None:
        return {}
    return {
        known.choose_qparams.tensor: partial(_chosen, is_symmetric=False),
        known.choose_qparams_symmetric.tensor: partial(_chosen, is_symmetric=True),
        known.choose_qparams_per_token.default: _chosen_by_row,
        known.choose_qparams_per_token_asymmetric.default: _chosen_by_row_beside_zero,
        known.convert_element_type.no_fuse: lambda data, dtype: data.to(dtype),
        known.dequantize_per_channel.default: _by_channel_restored,
        known.dequantize_per_tensor.default: _restored,
        known.dequantize_per_tensor.tensor: _restored,
        known.dequantize_per_tensor.tensor2: _restored,
        known.dequantize_per_token.default: _by_row_restored,
        known.quantize_per_channel.default: _by_channel_quantized,
        known.quantize_per_tensor.default: _quantized,
        known.quantize_per_tensor.tensor: _quantized,
        known.quantize_per_tensor.tensor2: _quantized,
        known.quantize_per_token.default: _by_row_quantized,
    }


def _number(value: float | torch.Tensor) -> Any:  # noqa: ANN401 - a number or a tensor
    """Return a number as float32, or a tensor of one as one of no axes, which is broadcast as a number is."""
    return value if isinstance(value, int | float) else value.reshape(()).float()


def _within(values: torch.Tensor, least: Any, most: Any, dtype: torch.dtype) -> torch.Tensor:  # noqa: ANN401
    """Return whole numbers within bounds in a data type."""
    import torch

    bounds = (least, most)
    if any(isinstance(bound, torch.Tensor) for bound in bounds):
        return torch.minimum(torch.maximum(values, _number(least)), _number(most)).to(dtype)
    return torch.clamp(values, *bounds).to(dtype)


def _quantized(
    data: torch.Tensor,
    scale: Any,  # noqa: ANN401 - a number or a tensor of one, as the others
    zero_point: Any,  # noqa: ANN401
    least: Any,  # noqa: ANN401
    most: Any,  # noqa: ANN401
    dtype: torch.dtype,
) -> torch.Tensor:
    # The reciprocal is that of doubles, whichever the scale is.
    factor = _number(1.0 / scale if isinstance(scale, int | float) else scale.double().reciprocal())
    return _within((data.float() * factor).round() + _number(zero_point), least, most, dtype)


def _restored(
    data: torch.Tensor,
    scale: Any,  # noqa: ANN401 - a number or a tensor of one, as the zero point
    zero_point: Any,  # noqa: ANN401
    *_: Any,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    import torch

    made = data.to(out_dtype or torch.float32)
    return (made - _in(made, zero_point)) * _in(made, scale)


def _in(like: torch.Tensor, value: Any) -> Any:  # noqa: ANN401 - a number or a tensor
    """Return a number, or a tensor of one in the type of another tensor."""
    return value if isinstance(value, int | float) else value.reshape(()).to(like.dtype)


def _along(values: torch.Tensor, axis: int, rank: int) -> torch.Tensor:
    """Return one value for each place of an axis so that it is broadcast along the others."""
    shape = [1] * rank
    shape[axis] = values.shape[0]
    return values.reshape(shape)


def _by_channel_quantized(
    data: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    axis: int,
    least: int,
    most: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    factors = _along(1.0 / scales, axis, data.ndim)
    return _within((data.float() * factors).round() + _along(zero_points, axis, data.ndim), least, most, dtype)


def _by_channel_restored(
    data: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor | None,
    axis: int,
    *_: Any,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    import torch

    # Of bytes the difference is exact in float32 as well, and so is written as that of one zero point is.
    is_of_bytes = data.dtype in (torch.int8, torch.uint8)
    away = data.float() if is_of_bytes else data
    if zero_points is not None:
        away = away - _along(zero_points.float() if is_of_bytes else zero_points, axis, data.ndim)
    return (away * _along(scales, axis, data.ndim)).to(out_dtype or torch.float32)


def _by_row_quantized(
    data: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, least: int, most: int, dtype: torch.dtype
) -> torch.Tensor:
    return _within((data * (1.0 / scales) + zero_points).round(), least, most, dtype)


def _by_row_restored(
    data: torch.Tensor,
    scales: torch.Tensor,
    zero_points: torch.Tensor,
    least: int,
    most: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    import torch

    return ((data - zero_points) * scales).to(output_dtype or torch.float32)


def _chosen(
    data: torch.Tensor, least: int, most: int, epsilon: float, dtype: torch.dtype, *, is_symmetric: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scale and the zero point by which what a tensor holds, and 0, are numbers within bounds."""
    import torch

    low, high = data.amin().clamp(max=0), data.amax().clamp(min=0)
    if is_symmetric:
        scale = (torch.maximum(-low, high) / ((most - least) / 2)).clamp(min=epsilon)
        zero_point = torch.full((1,), 128 if dtype is torch.uint8 else 0, dtype=torch.int64)
    else:
        scale = ((high - low) / float(most - least)).clamp(min=epsilon)
        zero_point = (least - (low / scale).round().to(torch.int32)).clamp(least, most).to(torch.int64)
    return scale.to(torch.float64).reshape(1), zero_point.reshape(1)


def _chosen_by_row(data: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a scale for each row, by which its numbers are integers of 8 bits, and zero points that are 0."""
    import torch

    sizes = data.abs().amax(-1, keepdim=True)
    scales = (sizes.float() if data.dtype is torch.float16 else sizes).clamp(min=1e-5) / 127
    return scales, torch.zeros_like(scales)


def _chosen_by_row_beside_zero(data: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a scale and a zero point for each row, so that the end which is further from 0 is met best."""
    import torch

    least, most = -128, 127
    low, high = data.amin(-1, keepdim=True).clamp(max=0), data.amax(-1, keepdim=True).clamp(min=0)
    scale = ((high - low) / float(most - least)).clamp(min=torch.finfo(torch.float32).eps)
    below, above = low / scale, high / scale
    zero_point = torch.where((least + below) + (most + above) > 0, least - below, most - above)
    return scale.to(torch.float64), zero_point.clamp(least, most).round().to(torch.int64)
