"""Models and operators as archives of the Model Library Format, version 7."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..compiler.models import to_module
from ..errors import ModelError, OptionError, TargetError
from ..target import canonical_target
from ..values.tensors import as_tensors
from .archive import write_archive
from .model import Model, compiled_model

__all__ = ["VERSION", "export", "write"]

VERSION = 7
"""The version of the format."""


def export(
    model: Any,
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    target: Any = "c",
    model_name: str = "default",
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    workspace_byte_alignment: int = 1,
) -> dict[str, Any]:
    """Write a model as an archive of C99 with an entry, a header and a description, and return that description.

    The entry ``tvmgen_<model_name>_run`` takes structs of pointers to the inputs and outputs. It allocates nothing:
    tensors between lie in a workspace of static memory, constants in arrays of the code. It needs the C library and
    libm.

    Parameters
    ----------
    model
        A model in any form that :func:`vmkit.compile` takes, of sizes that are known.
    path : path
        The archive, a ``.tar``. Nothing is written unless all of it can be.
    params : mapping, optional
        Arrays to bind to parameters of ``main`` by name: constants.
    target : optional
        ``"c"``, with its options.
    model_name : str
        An identifier of C, which all names of the model contain.
    shapes : mapping, optional
        For an ONNX model, the shapes of inputs by name.
    workspace_byte_alignment : int
        What the places of tensors in the workspace are multiples of, a power of 2; in any case of an element's size.

    Returns
    -------
    dict
        What ``metadata.json`` of the archive says; sizes are in bytes.

    Raises
    ------
    ModelError, UnsupportedOperatorError
        When the model is at fault, or a size of it is not known; the message names the input or node.
    CompileError
        When it has what C has no counterpart of: closures, data types, recursion that is no loop, packed functions.
    TargetError, OptionError
        When an argument is at fault.
    ExecutableError
        When the file cannot be written.
    """
    if workspace_byte_alignment < 1 or workspace_byte_alignment & (workspace_byte_alignment - 1):
        raise OptionError(f"workspace_byte_alignment: expected a power of 2, got {workspace_byte_alignment}")
    plan = canonical_target(target)
    if plan.primary.kind.name != "c" or len(plan.targets) > 1:
        raise TargetError(f"the Model Library Format is written for target 'c', not {plan}")
    mod, own_params = to_module(model, shapes=shapes)
    given = {**own_params, **as_tensors(params or {})}
    return write(path, [compiled_model(mod, given, plan, model_name, workspace_byte_alignment)])


def write(path: str | os.PathLike[str], models: Sequence[Model]) -> dict[str, Any]:
    """Write models as one archive, and return its description."""
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ModelError(f"Multiple modules should have unique names, got {', '.join(names)}")
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    metadata = {"version": VERSION, "modules": {model.name: model.metadata(now) for model in models}}
    files = {place: data for model in models for place, data in model.files().items()}
    write_archive(Path(path), metadata, files)
    return metadata
