"""The families of converters: every module of the packages that hold them; loading them fills the registry.

Most models have ONNX's own operators alone, and the other families are half of all, so they are loaded for the first
operator that is not found without them.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from . import registry
from .registry import Converter, default_domain

__all__ = ["NOT_FOLDED", "find", "load"]

_OWN = "operators"  # those of ONNX itself; onnxruntime has some in its domain that ONNX never had
_PACKAGES = (_OWN, "microsoft", "ml")

# Not computed at import although the inputs are constants: what is random, what costs much, what ONNX's reference does
# otherwise than onnxruntime (the scale of zeros alone), and integers of which products may be made.
NOT_FOLDED = frozenset(
    {
        "Bernoulli", "Conv", "ConvTranspose", "DequantizeLinear", "Dropout", "DynamicQuantizeLinear", "GRU",
        "Identity", "If", "LSTM", "Loop", "Multinomial", "RNN", "RandomNormal", "RandomNormalLike", "RandomUniform",
        "RandomUniformLike", "Scan",
    }
)  # fmt: skip


def find(domain: str, op_type: str, version: int) -> Converter | None:
    """Return the newest converter that is not newer than `version`, of all families."""
    if default_domain(domain) == "":
        _load(_OWN)
        made = registry.find(domain, op_type, version)
        if made is not None:
            return made
    load()
    return registry.find(domain, op_type, version)


def load() -> None:
    """Import every family."""
    for name in _PACKAGES:
        _load(name)


@cache
def _load(name: str) -> None:
    package = import_module(f".{name}", __package__)
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f".{module.name}", package.__name__)
