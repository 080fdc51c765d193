"""Conversion between all element types, with the rules for what a small float cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm import relax, te

from ...errors import TypeCheckError
from ..ir.types import TensorType, Type
from .attrs import Attrs, Bool, DType, Str, attrs_node
from .conversion import ROUND_MODES, converted
from .elementwise import check_dtype, require_tensor
from .registry import OpPattern, operator

if TYPE_CHECKING:
    from ..lower.context import LowerContext


@attrs_node("relay.attrs.ConvertAttrs")
class ConvertAttrs(Attrs):
    """Attributes of contrib_convert."""

    dtype: DType
    saturate: Bool = True
    round_mode: Str = "up"


@operator("contrib_convert", "data", attrs=ConvertAttrs, level=10, pattern=OpPattern.ELEMWISE)
class Convert:
    """The input converted to another data type, as ONNX's Cast does.

    A number too large for a float of 8 bits becomes the largest of them with saturate, else infinity or what is no
    number. round_mode says how ``float8_e8m0fnu`` rounds: "up", "down" or "nearest".
    """

    @staticmethod
    def relation(attrs: ConvertAttrs, data: Type) -> Type:
        if attrs.round_mode not in ROUND_MODES:
            raise TypeCheckError(f"round_mode is {attrs.round_mode!r}; it is one of {', '.join(ROUND_MODES)}")
        check_dtype(attrs.dtype, require_tensor(data).dtype)
        return TensorType(list(require_tensor(data).shape), attrs.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: ConvertAttrs, data: relax.Expr) -> relax.Expr:
        options = {"saturate": attrs.saturate, "round_mode": attrs.round_mode}
        return convert(context, data, context.types[0].dtype, attrs.dtype, **options)


def convert(context: LowerContext, data: relax.Expr, source: str, target: str, **options: Any) -> relax.Expr:
    """Return a lowered tensor of an element type as one of another."""

    def compute(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *i: converted(tensor(*i), source, target, **options), name="converted")

    return context.te(compute, data)
