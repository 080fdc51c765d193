"""Products of dequantised tensors become products of their integers, and scales are multiplied with the sums."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .._dataclasses import dataclass
from ..kernels.packed_product.depthwise import depthwise_of
from ..kernels.packed_product.integers import integers_of
from ..relay.ir import Call, Constant, Expr, Op, RelayExpr, const, is_call
from ..relay.op.pointwise import is_move
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.layout_rules import with_attrs
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..target.integer_unit import VECTORS, IntegerUnit
from .integer_products import is_worth_it, moved
from .ops.packed_product import PackedProductAttrs, packed_weight

__all__ = ["FactorScales"]

_LAYOUTS = {"nn.dense": "OI", "nn.conv1d": "OIW", "nn.conv2d": "OIHW"}
_DATA = {"nn.conv1d": "NCW", "nn.conv2d": "NCHW"}


@relay_pass(opt_level=1)
def FactorScales(unit: IntegerUnit | None = VECTORS) -> ModuleTransform:
    """Return the pass that multiplies dequantised tensors as integers, where a target has instructions for them.

    With one scale of the data, and one of the weight or one for each output,

        sum(((x - zero) * scale) * ((w - zero') * scale')) = sum((x - zero) * (w - zero')) * (scale * scale')

    which is rounded once and not for each term.

    Parameters
    ----------
    unit : IntegerUnit or None
        The instructions. None is for a processor that has none for such products, and does without those of floats
        too: all products are of integers there, also those that instructions would not pay for.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _factored(node, unit)))


@dataclass(frozen=True)
class _Scaled:
    """A tensor of int32 and the scale that it is multiplied with: an expression of a shape, broadcast."""

    integers: Expr
    scale: Expr
    shape: tuple[int, ...]


def _scaled(value: RelayExpr) -> _Scaled | None:
    """Return a tensor that is dequantised from 8 bits, None for any other."""
    if not (isinstance(value, Call) and isinstance(value.op, Op)):
        return None
    if is_move(value):
        inner = _scaled(value.args[0])
        if inner is None:
            return None
        if prod(inner.shape) == 1:
            return _Scaled(moved(value, inner.integers), inner.scale, (1,))
        if value.op.name != "transpose" or not isinstance(inner.scale, Constant) or not value.attrs.axes:
            return None
        axes = [int(a) % len(inner.shape) for a in value.attrs.axes]
        scale = inner.scale.data.numpy().reshape(inner.shape).transpose(axes)
        return _Scaled(moved(value, inner.integers), const(np.ascontiguousarray(scale)), scale.shape)
    if value.op.name != "multiply" or type_of(value).dtype != "float32":
        return None
    cast, scale = value.args
    own = type_of(scale).shape
    if not _is_cast(cast) or not all(isinstance(d, int) for d in own) or len(own) > len(type_of(cast).shape):
        return None
    rank = len(type_of(cast).shape)
    return _Scaled(cast.args[0], scale, (1,) * (rank - len(own)) + tuple(own))


def _is_cast(value: RelayExpr) -> bool:
    """Say whether an expression is an int32 difference of 8-bit integers as float32."""
    if not is_call(value, "cast"):
        return False
    inner = value.args[0]
    if not isinstance(inner, Call) or type_of(inner).dtype != "int32":
        return False
    if isinstance(inner.op, Op) and inner.op.name == "subtract":
        inner = inner.args[0]
    is_wide = is_call(inner, "cast")
    return is_wide and type_of(inner.args[0]).dtype in ("int8", "uint8")


def _factored(node: RelayExpr, unit: IntegerUnit | None) -> RelayExpr:
    if not is_call(node, *_LAYOUTS):
        return node
    if len(node.args) != 2 or type_of(node).dtype != "float32" or not _is_supported(node, unit):
        return node
    data, weight = (_scaled(arg) for arg in node.args)
    if data is None or weight is None or prod(data.shape) != 1 or not _is_constant(weight.integers):
        return node
    if prod(weight.shape) != weight.shape[0]:
        return node
    product = Call(node.op, [data.integers, weight.integers], with_attrs(node, out_dtype="int32"), span=node.span)
    scale = build("multiply", _one(data.scale), _along(weight, node))
    return build("multiply", build("cast", product, dtype="float32"), scale)


def _is_constant(value: RelayExpr) -> bool:
    """Say whether an expression is made of constants alone, as a weight that is dequantised is."""
    if isinstance(value, Constant):
        return True
    return isinstance(value, Call) and isinstance(value.op, Op) and all(_is_constant(arg) for arg in value.args)


def _is_supported(node: Call, unit: IntegerUnit | None) -> bool:
    """Say whether the integers' product will have a kernel of its own."""
    layout, shape = _LAYOUTS[node.op.name], type_of(node.args[1]).shape
    if not all(isinstance(d, int) for d in shape):
        return False
    window: dict[str, Any] = {}
    if node.op.name != "nn.dense":
        attrs = node.attrs
        in_groups = attrs.groups != 1 and unit is not None
        if (
            (in_groups and [attrs.groups, 1] != list(shape[:2]))
            or attrs.kernel_layout != layout
            or attrs.data_layout != _DATA[node.op.name]
        ):
            return False
        window = {name: list(getattr(attrs, name)) for name in ("strides", "dilation", "padding")}
        window["kernel_size"] = shape[2:]
    if unit is None:
        return prod(shape[1:]) * 255 * 255 < 1 << 31
    units, channels, *_ = shape
    groups = node.attrs.groups if window else 1
    encoding = integers_of(unit, units) if groups == 1 else depthwise_of(unit)
    values = {"encoding": encoding.name, "channels": channels * groups, "units": units, **window}
    terms = prod(shape[1:])
    return terms * 255 * 255 < 1 << 31 and is_worth_it(packed_weight(PackedProductAttrs(**values)), unit, 1)


def _one(scale: Expr) -> Expr:
    return build("reshape", scale, newshape=[]) if len(type_of(scale).shape) else scale


def _along(weight: _Scaled, node: Call) -> Expr:
    """Return the weight's scales in a shape that is broadcast to the result."""
    if prod(weight.shape) == 1:
        return _one(weight.scale)
    after = len(type_of(node).shape) - 2 if node.op.name != "nn.dense" else 0
    return build("reshape", weight.scale, newshape=[weight.shape[0], *[1] * after])
