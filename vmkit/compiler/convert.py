"""Models of every form as files of Relay's: its text and its JSON."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm.ir import IRModule

from ..errors import ModelError
from ..relay.json import save_json
from ..relay.params import bind_params
from ..relay.text import astext
from ..relay.transform import InferType
from .models import to_module

__all__ = ["FORMATS", "convert"]

FORMATS = (".relay", ".txt", ".json", ".json.gz")


def convert(
    model: object, path: str | os.PathLike[str], *, shapes: Mapping[str, Sequence[Any]] | None = None
) -> IRModule:
    """Write a model as a Relay program, its weights included; return the program.

    Parameters
    ----------
    model
        What :func:`vmkit.compile` takes.
    path : str or PathLike
        The file; its suffix says the form: ``.relay`` or ``.txt`` for Relay's text, ``.json`` for its JSON, and
        ``.json.gz`` for that compressed.
    shapes : mapping, optional
        The shapes of an ONNX model's inputs, by name.

    Raises
    ------
    ModelError
        If the model cannot be read or imported, or the suffix is of no known form.
    OSError
        If the file cannot be written.
    """
    path = Path(path)
    form = next((form for form in reversed(FORMATS) if path.name.endswith(form)), None)
    if form is None:
        raise ModelError(f"{path}: the suffix {path.suffix!r} is not one of {', '.join(FORMATS)}")
    mod, params = to_module(model, shapes=shapes)
    whole = InferType()(bind_params(mod, params) if params else mod)
    text = save_json(whole) if form.startswith(".json") else astext(whole)
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if form == ".json.gz" else data)
    return whole
