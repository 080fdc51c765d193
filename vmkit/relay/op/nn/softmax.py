"""The softmax family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

from ....errors import TypeCheckError
from ...ir.types import Type
from ..attrs import Attrs, Int, attrs_node, field
from ..axis import resolve_axis
from ..elementwise import require_tensor
from ..registry import Mixed, OpPattern, operator
from .precision import accumulator, as_dtype

__all__ = ["SoftmaxAttrs"]


@attrs_node("relay.attrs.SoftmaxAttrs")
class SoftmaxAttrs(Attrs):
    """Attributes of the softmax family."""

    axis: Int = field(-1, doc="The axis whose elements become 1 in sum.")


def _axis_relation(attrs: SoftmaxAttrs, data: Type) -> Type:
    source = require_tensor(data, "data")
    resolve_axis(attrs.axis, len(source.shape))
    if not source.dtype.startswith(("float", "bfloat")):
        raise TypeCheckError(f"the input must be a float tensor, not {source}")
    return source


def _softmax(name: str, function: Callable[..., te.Tensor], doc: str, mixed: Mixed | None = None) -> None:
    def compute(attrs: SoftmaxAttrs, data: te.Tensor) -> te.Tensor:
        wide = as_dtype(data, accumulator(str(data.dtype)), "wide")
        return as_dtype(function(wide, resolve_axis(attrs.axis, len(data.shape))), str(data.dtype))

    body = {"__doc__": doc, "relation": staticmethod(_axis_relation), "compute": staticmethod(compute)}
    operator(
        name,
        "data",
        attrs=SoftmaxAttrs,
        level=1,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        mixed=mixed,
        layout="axis",
    )(type(name, (), body))


class _Rows:
    """The rows of a tensor along an axis: one value for each row, and one for each element."""

    def __init__(self, shape: Sequence[Any], axis: int) -> None:
        self.shape, self.axis = list(shape), axis
        self.kept = [d for i, d in enumerate(shape) if i != axis]

    def reduced(self, over: Callable[..., Any], term: Callable[..., Any], name: str) -> te.Tensor:
        k = te.reduce_axis((0, self.shape[self.axis]), name="k")
        at = self.axis
        return te.compute(self.kept, lambda *i: over(term(*i[:at], k, *i[at:]), axis=k), name=name)

    def of(self, values: te.Tensor, index: Sequence[tirx.Expr]) -> tirx.Expr:
        """Return the value for the row of an element."""
        return values(*(i for at, i in enumerate(index) if at != self.axis))

    def exponent(self, x: te.Tensor, highest: te.Tensor) -> Callable[..., Any]:
        return lambda *i: tirx.exp(x(*i) - self.of(highest, i))


def _normal(x: te.Tensor, axis: int) -> te.Tensor:
    """Return exponentials divided by their sum: by one division for each row, the sum being 1 at least."""
    rows = _Rows(x.shape, axis)
    highest = rows.reduced(te.max, x, "softmax_max")
    exponents = te.compute(x.shape, rows.exponent(x, highest), name="softmax_exp")
    total = rows.reduced(te.sum, exponents, "softmax_sum")
    inverse = te.compute(rows.kept, lambda *i: tirx.const(1.0, str(x.dtype)) / total(*i), name="softmax_inverse")
    return te.compute(x.shape, lambda *i: exponents(*i) * rows.of(inverse, i), name="softmax")


def _logarithm(x: te.Tensor, axis: int) -> te.Tensor:
    """Return the logarithm of softmax: of one logarithm for each row."""
    rows = _Rows(x.shape, axis)
    highest = rows.reduced(te.max, x, "log_softmax_max")
    total = rows.reduced(te.sum, rows.exponent(x, highest), "log_softmax_sum")
    log = te.compute(rows.kept, lambda *i: tirx.log(total(*i)), name="log_softmax_log")
    return te.compute(x.shape, lambda *i: x(*i) - rows.of(highest, i) - rows.of(log, i), name="log_softmax")


_softmax("nn.softmax", _normal, "Exponentials divided by their sum along an axis.", mixed="never")
_softmax("nn.fast_softmax", topi.nn.fast_softmax, "softmax with an approximate exponential.")
_softmax("nn.log_softmax", _logarithm, "Logarithm of softmax.")
