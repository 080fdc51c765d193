"""The families of converters: every module of the packages that hold them; loading them fills the registry."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

__all__ = ["NOT_FOLDED", "load"]

# A package for each domain: ONNX's own, ai.onnx.ml, com.microsoft.
_PACKAGES = ("operators", "microsoft", "ml")

# Not computed at import although the inputs are constants: what is random, and what costs much.
NOT_FOLDED = frozenset(
    {
        "Bernoulli", "Conv", "ConvTranspose", "Dropout", "GRU", "Identity", "If", "LSTM", "Loop", "Multinomial",
        "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan",
    }
)  # fmt: skip


@cache
def load() -> None:
    """Import every family."""
    for name in _PACKAGES:
        package = import_module(f".{name}", __package__)
        for module in pkgutil.iter_modules(package.__path__):
            import_module(f".{module.name}", package.__name__)
