"""Buffers into which the iterations of a loop write what they give to be stacked."""

from __future__ import annotations

import numpy as np

from ... import relay
from ...relay.ir import Any as AnyDim
from ...relay.ir import Dim, Expr, If, TensorType, dims
from ...relay.op import build
from .capture import parameter, with_symbols
from .known import constant, sizes
from .typing import typed

__all__ = ["Stack"]


class Stack:
    """One buffer: of all rows if their number and shape are known before the loop, else one that grows."""

    def __init__(
        self, name: str, row: Expr, ty: TensorType, axis: int, count: Expr | None, length: Dim | None, is_reversed: bool
    ) -> None:
        self.name, self.row, self.axis, self.count, self.length = name, row, axis, count, length
        self.is_reversed = is_reversed
        self.inner = ty
        # A buffer that grows does so along its first axis.
        self.along = 0 if length is None else axis
        rows = AnyDim() if length is None else length
        self.type = TensorType([*ty.shape[: self.along], rows, *ty.shape[self.along :]], ty.dtype)
        self.formal = parameter("stacked", with_symbols(self.type, "stacked"))

    def start(self) -> Expr:
        """Return the buffer before the first iteration."""
        inner = [0 if dims.is_any(d) else d for d in self.inner.shape]
        length = 0 if self.length is None else self.length
        at = self.along
        whole = [*inner[:at], length, *inner[at:]]
        if not dims.is_any(length):
            return build("buffer.create", shape=whole, dtype=self.type.dtype)
        rows = relay.reshape(relay.maximum(self.count, constant(np.int64(0))), [1])
        before, after = (sizes(np.array(p, dtype=object)) for p in (inner[:at], inner[at:]))
        vector = relay.concatenate([before, rows, after], 0)
        return build("buffer.create", vector, shape=whole, dtype=self.type.dtype)

    def written(self, position: Expr) -> Expr:
        """Return the buffer after an iteration."""
        message = f"{self.name}: the shape differs from that of an earlier iteration"
        buffer: Expr = self.formal
        if self.length is None:
            buffer = If(build("buffer.is_full", buffer, position), build("buffer.grow", buffer, self.row), buffer)
        elif self.is_reversed:
            last = relay.take(relay.shape_of(buffer, dtype="int64"), constant(np.int64(self.along)), axis=0)
            position = relay.subtract(relay.subtract(last, constant(np.int64(1))), position)
        return build("buffer.write", buffer, self.row, position, axis=self.along, message=message)

    def stacked(self, buffer: Expr, count: Expr) -> Expr:
        """Return the rows of the iterations that there were."""
        if self.length is not None:
            return buffer
        rows = build("buffer.rows", buffer, count)
        if self.is_reversed:
            rows = relay.reverse(rows, 0)
        if self.axis:
            order = list(range(1, len(self.type.shape)))
            rows = relay.transpose(rows, [*order[: self.axis], 0, *order[self.axis :]])
        return typed(rows)
