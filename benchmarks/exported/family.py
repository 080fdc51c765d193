"""A family of models: how one is built, what it takes, and at which sizes it is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import onnx
import torch

__all__ = ["FAMILIES", "Family", "family", "load"]

Sizes = Mapping[str, int]
Tensors = dict[str, Any]
FAMILIES: dict[str, Family] = {}


@dataclass(frozen=True)
class Family:
    """One row of the table.

    Attributes
    ----------
    name : str
    module : callable
        Builds the model, which takes the inputs by position and returns a tensor or a flat tuple of tensors.
    inputs : callable
        Tensors by name, of given sizes.
    axes : mapping
        For each input the names of its dynamic dimensions by axis.
    sizes : tuple of mapping
        The sizes to compare at; the first one is exported.
    outputs : tuple of str
    without : mapping of str to str
        Exporters that cannot export it, ``"dynamo"`` or ``"script"``, each with the reason.
    script : bool
        Whether the module holds control flow that the older exporter reads from TorchScript.
    finish : callable
        Changes the exported model: nodes that torch has no operator for.
    tolerance : float
        Times rtol 1e-3, atol 1e-4.
    """

    name: str
    module: Callable[[], torch.nn.Module]
    inputs: Callable[..., Tensors]
    axes: Mapping[str, Mapping[int, str]]
    sizes: tuple[Sizes, ...]
    outputs: tuple[str, ...] = ("output",)
    without: Mapping[str, str] = field(default_factory=dict)
    script: bool = False
    finish: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda model: model
    tolerance: float = 1.0


def family(**options: Any) -> Callable[[Callable[[], torch.nn.Module]], Callable[[], torch.nn.Module]]:
    """Register the family whose module a function builds, under the function's name."""

    def register(build: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
        FAMILIES[build.__name__] = Family(name=build.__name__, module=build, **options)
        return build

    return register


def load() -> dict[str, Family]:
    """Return all families."""
    package = import_module(f"{__package__}.families")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(FAMILIES.items()))
