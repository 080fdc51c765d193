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
from .kernel import const, grid, line_at, loops, over_lines
from .registry import OpPattern, entry, operator
from .shape import reshape_value

if TYPE_CHECKING:
    from ..lower.context import LowerContext

__all__ = ["ScanopAttrs"]

Combine = Callable[["tirx.Expr", "tirx.Expr"], "tirx.Expr"]

_TOGETHER = 4  # lines whose sums grow side by side, as many steps as adding takes


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

        first = tirx.const(start, dtype)

        def body(outputs: list[tirx.Buffer], data: tirx.Buffer) -> None:
            write = _along_lines if all(dims.equal(d, 1) for d in shape[axis + 1 :]) else _step_by_step
            write(outputs[0], data, axis, lambda a, b: combine(a, b.astype(dtype)), first, bool(attrs.exclusive))

        return loops(context, [(shape, dtype)], body, data)

    body = {
        "__doc__": doc,
        "make": staticmethod(make),
        "relation": staticmethod(relation),
        "lower": staticmethod(lower),
    }
    operator(name, "data", attrs=ScanopAttrs, level=3, pattern=OpPattern.OPAQUE, layout="axis")(type(name, (), body))


def _along_lines(
    out: tirx.Buffer, data: tirx.Buffer, axis: int, combine: Combine, start: tirx.Expr, is_exclusive: bool
) -> None:
    """Write scans of lines that are in one piece, a few side by side: each step waits for the one before it."""
    *outer, count = data.shape[: axis + 1]
    rest = [const(0)] * (len(data.shape) - axis - 1)
    lines = dims.as_expr(dims.product(outer))
    groups = tirx.floordiv(lines, const(_TOGETHER))

    def write(first: tirx.Expr, together: int) -> None:
        places = [line_at(first + line, outer) for line in range(together)]
        totals = T.alloc_buffer((together,), start.ty.dtype, scope="local", layout=None)
        for line in range(together):
            T.buffer_store(totals, start, [const(line)])
        with T.serial(0, count) as step:
            for line, place in enumerate(places):
                at = [*place, step, *rest]
                before = totals[line]
                if is_exclusive:
                    T.buffer_store(out, before, at)
                T.buffer_store(totals, combine(before, data[tuple(at)]), [const(line)])
                if not is_exclusive:
                    T.buffer_store(out, totals[line], at)

    if not (isinstance(lines, tirx.IntImm) and int(lines) < _TOGETHER):
        over_lines([groups], count * const(_TOGETHER), lambda index: write(index[0] * _TOGETHER, _TOGETHER))
    with T.serial(0, lines - groups * _TOGETHER) as line:
        write(groups * _TOGETHER + line, 1)


def _step_by_step(
    out: tirx.Buffer, data: tirx.Buffer, axis: int, combine: Combine, start: tirx.Expr, is_exclusive: bool
) -> None:
    """Write scans in the order of memory: what lies beside each other within a step is computed together."""
    outer, count, inner = data.shape[:axis], data.shape[axis], list(data.shape[axis + 1 :])

    def write(before: list[tirx.Expr]) -> None:
        with grid([count, *inner]) as (step, *after):
            last = (*before, step - 1, *after)
            old = tirx.if_then_else(step == 0, start, out[last])
            value = data[last if is_exclusive else (*before, step, *after)]
            new = tirx.if_then_else(step == 0, start.astype(value.ty.dtype), value) if is_exclusive else value
            T.buffer_store(out, combine(old, new), [*before, step, *after])

    over_lines(outer, dims.as_expr(dims.product([count, *inner])), write)


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
