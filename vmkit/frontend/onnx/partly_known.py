"""Small tensors of integers of which some elements are known while a model is imported.

A shape with an unknown dimension is such a tensor, and so is what exporters put together of it. An element that is not
known has a symbol of its own here, which appears in no program: what is computed without it is known again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from tvm import tirx

from ...relay.ir import Any as AnyDim
from ...relay.ir import Dim, Expr, TensorType, dims
from .fold import fold_symbolic, only_moves
from .known import known_value
from .typing import typed

__all__ = ["PartlyKnown"]

_LIMIT = 64  # elements; a shape has a few


class PartlyKnown:
    """What an import knows of the elements of small tensors of integers."""

    def __init__(self) -> None:
        self._values: dict[Expr, np.ndarray] = {}
        # Symbols that stand for sizes, which are not negative; and for numbers of which nothing is known.
        self._sizes: set[tirx.Var] = set()
        self._numbers: set[tirx.Var] = set()

    def put_shape(self, expr: Expr, shape: Sequence[Dim]) -> None:
        """Record that an expression is a shape, in which an unknown dimension is ``Any``."""
        value = np.empty(len(shape), dtype=object)
        value[:] = [self._unknown(self._sizes) if dims.is_any(d) else d for d in shape]
        self._values[expr] = value

    def elements(self, expr: Expr) -> list[Dim] | None:
        """Return the elements of a tensor in order, ``Any`` for each that is not known; None where none is."""
        value = self._values.get(expr)
        if value is None:
            return None
        found = [AnyDim() if self._depends(v) else v for v in value.ravel().tolist()]
        return None if all(dims.is_any(v) for v in found) else found

    def fold(
        self, node: onnx.NodeProto, version: int, inputs: Sequence[Expr | None]
    ) -> tuple[Expr | None, np.ndarray | None]:
        """Return the value of a node of the ONNX domain if it is known, else what is known of its elements."""
        given = [i for i in inputs if i is not None]
        moves = only_moves(node)
        # A node without unknown inputs is folded without this; without known ones there is nothing to find.
        if all(known_value(i) is not None for i in given) or not any(self._is_partly_known(i) for i in given):
            return None, None
        values = [None if i is None else self._value(i, moves) for i in inputs]
        if any(v is None for v, i in zip(values, inputs, strict=True) if i is not None):
            return None, None
        if not moves and any(self._holds(v, self._numbers) for v in values if v is not None):
            return None, None
        if len(node.output) != 1:
            return None, None
        outputs = fold_symbolic(node, version, values, [None if i is None else i.checked_type.dtype for i in inputs])
        made = None if outputs is None else outputs[0]
        value = known_value(made)
        if value is not None and self._holds(value, self._sizes | self._numbers):
            return None, value
        return made, None

    def put(self, expr: Expr, value: np.ndarray) -> None:
        """Record what :meth:`fold` found of the elements of a node's output."""
        self._values[expr] = value

    def _is_partly_known(self, expr: Expr) -> bool:
        if expr in self._values:
            return True
        value = known_value(expr)
        return value is not None and value.size <= _LIMIT and value.dtype.kind in "iO"

    def _value(self, expr: Expr, any_number: bool) -> np.ndarray | None:
        value = known_value(expr)
        if value is not None:
            return value if value.size <= _LIMIT else None
        value = self._values.get(expr)
        return self._of_numbers(expr) if value is None and any_number else value

    def _of_numbers(self, expr: Expr) -> np.ndarray | None:
        """Return symbols for the elements of a tensor of integers of which only the shape is known."""
        ty = typed(expr).checked_type_
        if not isinstance(ty, TensorType) or ty.dtype not in ("int32", "int64"):
            return None
        count = dims.product(list(ty.shape))
        if not isinstance(count, int) or not 0 < count <= _LIMIT:
            return None
        value = np.empty(count, dtype=object)
        value[:] = [self._unknown(self._numbers) for _ in range(count)]
        self._values[expr] = value.reshape([int(d) for d in ty.shape])
        return self._values[expr]

    def _unknown(self, kind: set[tirx.Var]) -> tirx.Var:
        symbol = tirx.Var("unknown", "int64")
        kind.add(symbol)
        return symbol

    def _depends(self, value: Dim) -> bool:
        return not isinstance(value, int) and not (self._sizes | self._numbers).isdisjoint(dims.symbols([value]))

    def _holds(self, value: np.ndarray, unknown: set[tirx.Var]) -> bool:
        return value.dtype == object and any(
            not isinstance(v, int) and not unknown.isdisjoint(dims.symbols([v])) for v in value.ravel().tolist()
        )
