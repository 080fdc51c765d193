"""Optional values: what is known to be there, or not to be, is decided while the model is imported."""

from __future__ import annotations

import onnx

from ....relay.ir import Expr, OptionalType
from ....relay.op import build
from ..context import Context
from ..dtype import dtype_name
from ..elements import is_none, is_some
from ..registry import converter
from ..typing import typed


@converter("Optional", since=15)
def optional(ctx: Context, value: Expr | None = None, *, type: onnx.TypeProto | None = None) -> Expr:
    if value is not None:
        return build("optional.some", value)
    if type is None:
        ctx.fail("there is neither a value nor the attribute 'type'")
    inner = type.optional_type.elem_type if type.WhichOneof("value") == "optional_type" else type
    is_sequence = inner.WhichOneof("value") == "sequence_type"
    tensor = inner.sequence_type.elem_type.tensor_type if is_sequence else inner.tensor_type
    return build("optional.none", dtype=dtype_name(tensor.elem_type, "Optional"), is_sequence=is_sequence)


@converter("OptionalHasElement", since=15)
def optional_has_element(ctx: Context, value: Expr | None = None) -> Expr:
    if value is None or is_none(value):
        return ctx.constant(False, "bool")
    if is_some(value) or not isinstance(typed(value).checked_type_, OptionalType):
        return ctx.constant(True, "bool")
    return build("optional.has", value)


@converter("OptionalGetElement", since=15)
def optional_get_element(ctx: Context, value: Expr) -> Expr:
    if is_none(value):
        ctx.fail("the optional value holds nothing")
    if is_some(value):
        return value.args[0]
    return build("optional.get", value) if isinstance(typed(value).checked_type_, OptionalType) else value
