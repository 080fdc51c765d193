"""The arrays that a graph begins with, wherever the file keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx

from ...relay.ir import Expr, TensorType, Var
from ...relay.op import build
from ...values.element_types import to_stored
from .capture import parameter
from .dtype import numpy_tensor
from .external import is_external, mapped
from .in_file import InFile
from .sparse import dense_array

__all__ = ["initializer_arrays", "stored_parameter"]


def initializer_arrays(
    graph: onnx.GraphProto, weights: Mapping[str, InFile], folder: Path | None
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the initializers of a graph, by name.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    weights : mapping of str to InFile
        Those whose data was left in the model's file.
    folder : path, optional
        Where files with more data are.
    """
    for tensor in graph.initializer:
        if tensor.name in weights:
            yield tensor.name, weights[tensor.name].array()
        elif is_external(tensor):
            yield tensor.name, mapped(tensor, folder)
        else:
            yield tensor.name, numpy_tensor(tensor, f"initializer {tensor.name!r}")
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, dense_array(sparse, f"the sparse initializer {sparse.values.name!r}")


def stored_parameter(name: str, array: np.ndarray) -> tuple[Var, Expr]:
    """Return a variable for an array as it is stored, and the array's value."""
    stored = to_stored(array)
    variable = parameter(name, TensorType(array.shape, str(stored.dtype)))
    return variable, variable if stored is array else build("contrib_from_stored", variable, str(array.dtype))
