"""Flattening all but the batch."""

from __future__ import annotations

from typing import Any

from tvm import relax

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from ..shape import reshape_value

__all__: list[str] = []


@operator("nn.batch_flatten", "data", level=2, pattern=OpPattern.INJECTIVE)
class BatchFlatten:
    """The data as a matrix: the batch, and all other dimensions in one."""

    @staticmethod
    def relation(attrs: Any, data: Type) -> Type:
        source = require_tensor(data, "data")
        if not len(source.shape):
            raise TypeCheckError("the input must have a batch dimension; it is a scalar")
        return TensorType([source.shape[0], dims.product(source.shape[1:])], source.dtype)

    @staticmethod
    def lower(context: Any, attrs: Any, data: relax.Expr) -> relax.Expr:
        batch, *rest = context.shape(data)
        return reshape_value(context, data, [batch, dims.product(rest)])
