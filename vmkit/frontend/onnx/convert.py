"""``from_onnx``: from a model of any form to a Relay module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import onnx
import tvm

from ...errors import ModelError, OptionError, suggest
from .importer import ModelImporter
from .load import read_model

__all__ = ["conversion_settings", "from_onnx"]


def from_onnx(
    model: Any,
    shape: Mapping[str, Any] | None = None,
    dtype: str | Mapping[str, str] = "float32",
    opset: int | None = None,
    freeze_params: bool = True,
    convert_config: Mapping[str, Any] | None = None,
    export_node_renamed_model_path: str | None = None,
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the Relay module of an ONNX model, and its parameters.

    Parameters
    ----------
    model : ModelProto, str, PathLike or bytes
        The model, a file, or what a file holds.
    shape : mapping, optional
        The shapes of inputs that are not to be as in the file. A dimension is an int, a name (equal names are equal
        dimensions), or unknown: ``-1``, ``None``, ``"?"`` or ``relay.Any()``. Dimensions that the file names keep
        their names; others that are unknown are called after input and axis, as in ``x_dim0``. In the file -1, 0, and
        names such as ``?``, ``None`` or ``unk__12`` stand for an unknown one, each for its own; a 0 that is given here
        is an empty one. Under the name of a dimension: the least and the largest size that it may have, ``(1, 64)``;
        others are an error of the run.
    dtype : str or mapping
        The data type of inputs of which the file does not tell it; a mapping is checked against the file.
    opset : int, optional
        Read the model as one of this opset.
    freeze_params : bool
        Whether initializers become constants. Otherwise they become parameters of ``main``, except those that steer
        the import, such as shapes, and their values are returned.
    convert_config : mapping, optional
        Relay's settings of the conversion: ``use_nt_batch_matmul``.
    export_node_renamed_model_path : str, optional
        Where to write the model with a name given to every node that has none.

    Returns
    -------
    tvm.IRModule, dict
        The module, whose ``main`` has the model's inputs as parameters, and the attribute ``output_names``; and the
        values of the parameters that are not constants.

    Raises
    ------
    ModelError
        For a file that is no ONNX model or a malformed one; UnsupportedOperatorError lists all operators that have
        no converter.
    InputError
        When `shape` or `dtype` do not fit the model.
    """
    loaded = read_model(model, whole=export_node_renamed_model_path is not None)
    if export_node_renamed_model_path is not None:
        loaded = replace(loaded, model=_named_nodes(loaded.model))
        onnx.save(loaded.model, export_node_renamed_model_path)
    try:
        settings = conversion_settings(convert_config)
        module, values = ModelImporter(loaded, shape, dtype, opset, lambda _: freeze_params, settings).run()
        return module, {name: tvm.runtime.tensor(value) for name, value in values.items()}
    except ModelError as error:
        raise type(error)(f"{loaded.name}: {error}") from error.__cause__


def conversion_settings(convert_config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all settings of a conversion, with what is given checked; OptionError for what is no setting."""
    settings: dict[str, Any] = {"use_nt_batch_matmul": True}
    for key, value in (convert_config or {}).items():
        if key not in settings:
            raise OptionError(
                f"convert_config has no setting {key!r}{suggest(key, settings)}; there is use_nt_batch_matmul"
            )
        if not isinstance(value, bool):
            raise OptionError(f"convert_config[{key!r}] is a bool, not {value!r}")
        settings[key] = value
    return settings


def _named_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    named = onnx.ModelProto()
    named.CopyFrom(model)
    taken = {n.name for n in named.graph.node}
    for index, node in enumerate(named.graph.node):
        if not node.name:
            base = f"{node.op_type}_{index}"
            node.name = base if base not in taken else f"{base}_"
    return named
