"""A product of matrices of integers that are known at run time only: what UseIntegerMatrices makes of others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...relay.ir import Any, Dim, dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Int, attrs_node
from ...relay.op.broadcast import broadcast_dim
from ...relay.op.elementwise import require_tensor
from ...relay.op.registry import OpPattern, operator
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []

_NAME = "nn.contrib_integer_matrices"
_LANES = (8, 16)
_RIGHT = {"int16": ("int8", "uint8", "int16"), "uint8": ("int8",)}


@attrs_node("relay.attrs.IntegerMatricesAttrs")
class IntegerMatricesAttrs(Attrs):
    """Attributes of nn.contrib_integer_matrices; lanes is how many int32 a vector has."""

    lanes: Int = 8


@operator(_NAME, "x", "y", attrs=IntegerMatricesAttrs, level=10, pattern=OpPattern.OPAQUE)
class IntegerMatricesOperator:
    """``x @ y`` in int32 on a CPU, of matrices (batch, rows, inner) by (batch, inner, columns).

    They are int16 by int8, uint8 or int16, or uint8 by int8. One of the batches may be 1.
    """

    @staticmethod
    def relation(attrs: IntegerMatricesAttrs, x: Type, y: Type) -> Type:
        a, b = require_tensor(x, "x"), require_tensor(y, "y")
        if len(a.shape) != 3 or len(b.shape) != 3 or b.dtype not in _RIGHT.get(a.dtype, ()):
            expected = " or ".join(f"{left} by {', '.join(right)}" for left, right in _RIGHT.items())
            raise TypeCheckError(f"x and y must be {expected}, of three axes each, not {a} and {b}")
        if attrs.lanes not in _LANES:
            raise TypeCheckError(f"lanes is {attrs.lanes}, expected {' or '.join(map(str, _LANES))}")
        batches = [a.shape[0], b.shape[0]]
        batch = Any() if any(dims.is_any(d) for d in batches) else dims.broadcast(*batches)
        if batch is None or dims.equal(a.shape[2], b.shape[1]) is False:
            raise TypeCheckError(f"{a} and {b} are no stacks of matrices that can be multiplied")
        return TensorType([batch, a.shape[1], b.shape[2]], "int32")

    @staticmethod
    def lower(context: LowerContext, attrs: IntegerMatricesAttrs, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        from ...kernels.integer_matrices import IntegerMatrices, integer_matrices

        a, b = context.shape(x), context.shape(y)
        context.require_equal(b[1], a[2], f"{_NAME}: y has {{actual}} rows, expected {{expected}}")
        batch = broadcast_dim(context, "dimension 0", [a[0], b[0]])
        inner = a[2] if isinstance(a[2], int) else b[1]
        batches = _known(batch), _known(a[0]), _known(b[0])
        dtypes = str(x.ty.dtype), str(y.ty.dtype)
        shape = IntegerMatrices(batches, _known(a[1]), _known(inner), _known(b[2]), dtypes, attrs.lanes)
        write = partial(integer_matrices, shape)
        return call_kernel(context, write, "integer_matrices", [x, y], [batch, a[1], b[2]], dtype="int32")


def _known(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None
