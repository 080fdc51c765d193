"""The families of converters; loading them fills the registry."""

from __future__ import annotations

from importlib import import_module

__all__ = ["NOT_FOLDED", "load"]

_FAMILIES = (
    "activation", "control_flow", "convolution", "elementwise", "indexing", "joining", "layout", "normalization",
    "padding", "pooling", "product", "recurrent", "reduction", "resize", "shape",
)  # fmt: skip

# Not computed at import although the inputs are constants: what is random, and what costs much.
NOT_FOLDED = frozenset(
    {
        "Bernoulli", "Conv", "ConvTranspose", "Dropout", "GRU", "Identity", "If", "LSTM", "Loop", "Multinomial",
        "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan",
    }
)  # fmt: skip


def load() -> None:
    """Import every family."""
    for family in _FAMILIES:
        import_module(f".{family}", __package__)
