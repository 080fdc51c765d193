"""How operators of PyTorch are written by simpler ones, before they are imported."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from .quantization import quantization_rules

if TYPE_CHECKING:
    import torch

__all__ = ["decompositions"]


def decompositions(kept: Container[str]) -> dict[Any, Callable[..., Any]]:
    """Return PyTorch's rules by operator, but for the operators whose names are in `kept`, and ones in their place."""
    import torch
    from torch.export import default_decompositions

    own = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default: _attention}
    rules = {**default_decompositions(), **quantization_rules(), **own}
    return {known: rule for known, rule in rules.items() if known.__name__ not in kept}


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return attention whose result lies in memory as the kernel's does, the heads of a place side by side.

    In PyTorch 2.13's own rule the batch is within the places, which what views the kernel's result cannot be told of.
    """
    import torch

    is_grouped = query.shape[1] != key.shape[1]  # several heads of queries look at one of keys
    made, weights = torch.ops.aten._scaled_dot_product_attention_math.default(
        query,
        key,
        value,
        attn_mask=attn_mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=is_grouped,
    )
    return made.transpose(1, 2).contiguous().transpose(1, 2), weights
