"""TFLite files as Relax modules, read by TVM's importer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm

from ..errors import ModelError, UnsupportedOperatorError
from .packages import needed

__all__ = ["from_tflite"]

# The identifier of the file format, from its fourth byte on.
_IDENTIFIER = b"TFL3"


def from_tflite(path: Path) -> tvm.IRModule:
    """Return the Relax module of a TFLite file, its weights constants.

    Raises
    ------
    ModelError
        For a file that is no TFLite model.
    UnsupportedOperatorError
        When TVM's importer cannot convert it, with what it says.
    UnavailableError
        Where the package ``tflite`` is not installed.
    """
    tflite = needed("tflite", "tflite", f"{path.name}: a TFLite file")
    from tvm.relax.frontend.tflite import from_tflite as imported

    from .tflite_converter import Converter

    data = path.read_bytes()
    if data[4:8] != _IDENTIFIER:
        raise ModelError(f"{path.name} is no TFLite model: it has {data[4:8]!r} where such a file has {_IDENTIFIER!r}")
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        module = imported(model, op_converter=Converter)
    except NotImplementedError as error:
        raise UnsupportedOperatorError(f"{path.name}: TVM's importer cannot convert it: {error}") from error
    except Exception as error:
        raise ModelError(f"{path.name}: TVM's importer fails at it: {type(error).__name__}: {error}") from error
    # The weights, which are constants of the function, are listed once more in an attribute.
    main = module["main"].without_attr("params").with_attr("output_tensor_names", _names_of_outputs(model))
    module.update_func(module.get_global_var("main"), main)
    return module


def _names_of_outputs(model: Any) -> list[str]:  # noqa: ANN401 - of tflite
    """Return what a model calls its results; in C their places have these names."""
    graph = model.Subgraphs(0)
    return [graph.Tensors(graph.Outputs(k)).Name().decode() for k in range(graph.OutputsLength())]
