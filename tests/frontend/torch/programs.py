"""Programs of ``torch.export`` of plain functions, whose every dimension is dynamic, and tensors to run them on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install '.[torch]'")
AUTO = torch.export.Dim.AUTO


class Of(torch.nn.Module):
    """A module of a function of tensors, with the layers that it uses."""

    def __init__(self, function: Callable[..., Any], **layers: torch.nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, torch.nn.ModuleDict(layers)

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args, **self.layers)


def exported(function: Callable[..., Any], *args: torch.Tensor) -> Any:
    """Return the program of a function, with every dimension of its tensors dynamic."""
    axes = tuple(dict.fromkeys(range(arg.ndim), AUTO) for arg in args)
    return torch.export.export(Of(function).eval(), args, dynamic_shapes=(axes,))


def tensor(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32"))
