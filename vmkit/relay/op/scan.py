"""Running sums and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tvm import relax, tirx
from tvm.script.ir_builder import tirx as T

from ..ir import dims
from ..ir.expr import Call, Expr
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, DType, Int, attrs_node, field
from .axis import resolve_axis
from .elementwise import require_tensor
from .kernel import grid, loops
from .registry import OpPattern, entry, operator
from .shape import reshape_value

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["ScanopAttrs"]


@attrs_node("relay.attrs.ScanopAttrs")
class ScanopAttrs(Attrs):
    """Attributes of cumsum and cumprod."""

    axis: Int | None = field(None, doc="The axis to go along; over all elements where it is left open.")
    dtype: DType = field("", script=None, doc="Data type of the result; that of the data where it is empty.")
    exclusive: Bool = field(False, script=None, doc="Whether the element itself is left out.")


def _scan(name: str, doc: str, combine: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], start: int) -> None:
    def make(data: Expr, axis: int | None, dtype: str | None, exclusive: bool | None) -> Call:
        return entry(name).call(data, axis=axis, dtype=dtype, exclusive=bool(exclusive))

    def relation(attrs: ScanopAttrs, data: Type) -> Type:
        source = require_tensor(data)
        shape = [dims.product(source.shape)] if attrs.axis is None else list(source.shape)
        if attrs.axis is not None:
            resolve_axis(attrs.axis, len(shape))
        return TensorType(shape, attrs.dtype or source.dtype)

    def lower(context: LowerContext, attrs: ScanopAttrs, data: relax.Expr) -> relax.Expr:
        if attrs.axis is None:
            data = reshape_value(context, data, [dims.product(context.shape(data))])
        shape, dtype = context.shape(data), attrs.dtype or str(data.ty.dtype)
        axis = resolve_axis(attrs.axis or 0, len(shape))

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer) -> None:
            (out,) = outputs
            # In the order of memory: what lies beside each other within a step of the scan is computed together.
            with grid(list(data.shape)) as i:
                before = [v - 1 if k == axis else v for k, v in enumerate(i)]
                first = tirx.const(start, dtype)
                old = tirx.if_then_else(i[axis] == 0, first, out[tuple(before)])
                if attrs.exclusive:
                    new = tirx.if_then_else(i[axis] == 0, first, data[tuple(before)].astype(dtype))
                else:
                    new = data[tuple(i)].astype(dtype)
                T.buffer_store(out, combine(old, new), i)

        return loops(context, [(shape, dtype)], body, data)

    body = {
        "__doc__": doc,
        "make": staticmethod(make),
        "relation": staticmethod(relation),
        "lower": staticmethod(lower),
    }
    operator(name, "data", attrs=ScanopAttrs, level=3, pattern=OpPattern.OPAQUE, layout="axis")(type(name, (), body))


_scan(
    "cumsum",
    "Running sum along axis, or over all elements; exclusive leaves the element itself out.",
    lambda a, b: a + b,
    0,
)
_scan(
    "cumprod",
    "Running product along axis, or over all elements; exclusive leaves the element itself out.",
    lambda a, b: a * b,
    1,
)
