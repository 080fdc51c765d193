"""What a converter works with: the node, its opset, and what is known of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import onnx

from ...errors import ModelError
from ...relay.ir import Dim, Expr, TensorType, dims
from ...relay.op import build
from ...values.element_types import numpy_dtype
from .index_ends import index_ends
from .known import constant
from .typing import typed

__all__ = ["Context"]


class Context:
    """A node that is being converted.

    Attributes
    ----------
    node : NodeProto
        The node.
    version : int
        The opset version of the node's domain.
    importer : ModelImporter
        The model being imported: subgraphs, new global functions.
    scope : Scope
        The values that the node can see.
    """

    def __init__(self, importer: Any, node: onnx.NodeProto, version: int, scope: Any) -> None:
        self.importer = importer
        self.node = node
        self.version = version
        self.scope = scope

    # -- types

    def type(self, expr: Expr) -> TensorType:
        """Return the type of a tensor."""
        return typed(expr).checked_type_

    def shape(self, expr: Expr) -> list[Dim]:
        """Return the dimensions of a tensor."""
        return list(self.type(expr).shape)

    def rank(self, expr: Expr) -> int:
        """Return the number of dimensions of a tensor."""
        return len(self.type(expr).shape)

    def dtype(self, expr: Expr) -> str:
        """Return the element type of a tensor."""
        return self.type(expr).dtype

    def axis(self, axis: int, rank: int) -> int:
        """Return an axis counted from the front; ModelError when there is no such axis."""
        if not -rank <= axis < rank:
            self.fail(f"axis {axis} of a tensor of {rank} dimensions")
        return axis % rank

    # -- values known at import

    def known(self, expr: Expr | None) -> np.ndarray | None:
        """Return the value of an input, as an object array if symbolic integers are in it; None if it is not known."""
        return None if expr is None else self.importer.known(expr)

    def static(self, expr: Expr | None) -> np.ndarray | None:
        """Return the value of an input if it is a plain array of numbers, else None."""
        value = self.known(expr)
        return None if value is None or value.dtype == object else value

    def required(self, expr: Expr, name: str) -> np.ndarray:
        """Return the value of an input that has to be a plain array of numbers; ModelError when it is not."""
        value = self.static(expr)
        if value is None:
            self.fail(
                f"the input {name!r} ({self.type(expr)}) must be a constant of the model, or computed from constants"
            )
        return value

    def ints(self, expr: Expr, name: str) -> list[int]:
        """Return the elements of an input that has to be known, as ints."""
        return [int(v) for v in self.required(expr, name).ravel()]

    def dims(self, expr: Expr | None) -> list[Dim] | None:
        """Return the elements of a known integer input, symbolic ones included; None if it is not known."""
        value = self.known(expr)
        if value is None:
            return None
        return [v if not isinstance(v, int | np.integer) else int(v) for v in value.ravel().tolist()]

    def partly_known(self, expr: Expr) -> list[Dim] | None:
        """Return the elements of an integer input in order, ``Any`` for what is not known; None if nothing is."""
        return self.importer.partly_known.elements(expr)

    def index_ends(self, expr: Expr) -> list[Dim]:
        """Return sizes that indices, none of which is less than 0, are less than; none if they are not known to be."""
        return index_ends(expr, self.importer.index_ends)

    def scalar(self, expr: Expr | None) -> float | int | bool | None:
        """Return the value of a known input of one element, else None."""
        value = self.static(expr)
        return value.item() if value is not None and value.size == 1 else None

    def constant(self, value: Any, dtype: str) -> Expr:
        """Return a constant of a data type."""
        return constant(np.asarray(value, dtype=numpy_dtype(dtype)))

    def positions(self, extent: Dim, dtype: str) -> Expr:
        """Return the vector 0, 1, ... extent - 1 of an integer type."""
        if isinstance(extent, int):
            return constant(np.arange(extent, dtype=dtype))
        if dims.is_any(extent):
            self.fail("a size that it needs is known only at run time")
        return build("contrib.positions", extent=extent, dtype=dtype)

    # -- the rest

    def wants(self, output: int) -> bool:
        """Say whether the node has an output at a position."""
        return output < len(self.node.output) and bool(self.node.output[output])

    def size_in_file(self, dim: Dim) -> int | None:
        """Return the size that the file fixes where the caller put a symbol; None for any other dimension."""
        return self.importer.widened.get(dim) if not isinstance(dim, int) else None

    def subgraph(self, graph: onnx.GraphProto, inputs: Mapping[str, Expr] | None = None) -> Any:
        """Return the outcome of a graph that sees the values the node sees."""
        return self.importer.subgraph(graph, self.scope, inputs or {})

    def fail(self, reason: str) -> NoReturn:
        """Raise a ModelError about this node."""
        raise ModelError(reason)
