"""Both of torch's exporters to ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch

from .family import Family
from .wrapped import masks_for_tracing

__all__ = ["EXPORTERS", "build", "export"]

EXPORTERS = ("dynamo", "script")


def build(family: Family) -> torch.nn.Module:
    """Return the family's module with its random weights, which are the same in every process."""
    torch.manual_seed(0)
    return family.module().eval()


def export(family: Family, module: torch.nn.Module, exporter: str, path: Path) -> Path:
    """Write the family's model to a file, with its weights inside, and return the file."""
    torch.manual_seed(1)
    inputs = family.inputs(**family.sizes[0])
    options: dict[str, Any] = {"input_names": list(inputs), "output_names": list(family.outputs), "verbose": False}
    if exporter == "dynamo":
        axes = tuple(dict(family.axes.get(name, {})) or None for name in inputs)
        shapes = (axes,) if _is_variadic(module) else axes
        options |= {"dynamo": True, "dynamic_shapes": shapes, "external_data": False}
    else:
        options |= {"dynamo": False, "dynamic_axes": {n: dict(a) for n, a in family.axes.items() if a}}
        if family.script:
            module = torch.jit.script(module)
    masks = masks_for_tracing() if exporter == "script" else contextlib.nullcontext()
    with _quiet(), masks, torch.no_grad():
        torch.onnx.export(module, tuple(inputs.values()), str(path), **options)
    model = family.finish(onnx.load(path))
    onnx.save(model, path)
    return path


def _is_variadic(module: torch.nn.Module) -> bool:
    return bool(module.forward.__code__.co_flags & 0x04)


@contextlib.contextmanager
def _quiet() -> Any:
    """The exporters print and warn a lot."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        before = logging.root.manager.disable
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
