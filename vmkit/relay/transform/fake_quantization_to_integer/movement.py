"""Rules of operators that move, choose or compare elements: they do the same to the integers."""

from __future__ import annotations

from collections.abc import Callable

from ....errors import UnsupportedOperatorError
from ...ir import AffineType, Call, Constant, RelayExpr, TensorAffineType, TupleAffineType
from ...op.attached import Attached, register_fake_quantization_to_integer
from ...op.nn.layout import SPATIAL, axes_of
from ...op.registry import build, entry
from ..known_type import type_of
from .affine import TypeMap, attributes, is_per_tensor, rank_of, requantized, require_per_tensor

__all__ = ["register_unary_identity"]


@register_fake_quantization_to_integer("qnn.dequantize")
def _dequantize(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    return [expr.args[0], types[expr]]


@register_fake_quantization_to_integer("qnn.quantize")
def _quantize(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    data = expr.args[0]
    wanted = TensorAffineType(expr.args[1], expr.args[2], expr.attrs.out_dtype, expr.attrs.axis)
    return [requantized(data, types[data], wanted), wanted]


def register_unary_identity(op_name: str) -> Attached:
    """Register an operator of one tensor that does to integers what it does to the reals that they stand for."""

    def identity(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
        if len(expr.args) != 1:
            raise UnsupportedOperatorError(
                f"{expr.op.name} takes {len(expr.args)} operands; a rule for one was registered"
            )
        ty = types[expr.args[0]]
        return [expr, ty if is_per_tensor(ty) else _along_moved_axis(expr, ty)]

    return register_fake_quantization_to_integer(op_name, identity)


for _name in (
    *("reshape", "squeeze", "strided_slice", "transpose", "expand_dims", "nn.max_pool2d", "nn.batch_flatten"),
    *("nn.depth_to_space", "max", "min", "image.resize2d", "broadcast_to"),
):
    register_unary_identity(_name)


def _along_moved_axis(call: Call, ty: TensorAffineType) -> TensorAffineType:
    """Return an affine type along the axis that a call moves its axis to."""
    rank = rank_of(call.args[0])
    moved = _MOVED[call.op.name](call, rank, ty.axis % rank) if call.op.name in _MOVED else None
    if moved is None:
        raise UnsupportedOperatorError(f"{call.op.name} on integers with a scale for each channel mixes the channels")
    return TensorAffineType(ty.scale, ty.zero_point, ty.dtype, moved)


def _by_transpose(call: Call, rank: int, axis: int) -> int:
    axes = [a % rank for a in call.attrs.axes] if call.attrs.axes is not None else list(reversed(range(rank)))
    return axes.index(axis)


def _by_expand_dims(call: Call, rank: int, axis: int) -> int:
    at = call.attrs.axis if call.attrs.axis >= 0 else call.attrs.axis + rank + 1
    return axis + call.attrs.num_newaxis if axis >= at else axis


def _by_squeeze(call: Call, rank: int, axis: int) -> int:
    given = call.attrs.axis
    shape = type_of(call.args[0]).shape
    gone = [k for k, d in enumerate(shape) if d == 1] if given is None else [a % rank for a in given]
    return axis - sum(a < axis for a in gone)


def _by_window(call: Call, rank: int, axis: int) -> int | None:
    return None if axes_of(call.attrs.layout)[axis] in SPATIAL[2] else axis


_MOVED: dict[str, Callable[[Call, int, int], int | None]] = {
    "transpose": _by_transpose,
    "expand_dims": _by_expand_dims,
    "squeeze": _by_squeeze,
    "nn.max_pool2d": _by_window,
    "image.resize2d": _by_window,
    "broadcast_to": lambda call, rank, axis: axis + rank_of(call) - rank,
}


@register_fake_quantization_to_integer("split")
def _split(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    ty = types[expr.args[0]]
    rank = rank_of(expr.args[0])
    if not is_per_tensor(ty) and ty.axis % rank == expr.attrs.axis % rank:
        raise UnsupportedOperatorError("split along the axis of the scales")
    return [expr, TupleAffineType([ty] * len(type_of(expr).fields))]


@register_fake_quantization_to_integer("concatenate")
def _concatenate(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    wanted, fields = types[expr], types[expr.args[0]].types
    scales, zero_points = [t.scale for t in fields], [t.zero_point for t in fields]
    operands = expr.args[0], scales, zero_points, wanted.scale, wanted.zero_point
    narrow = [t.dtype for t in fields]
    if set(narrow) != {wanted.dtype}:
        raise UnsupportedOperatorError(f"concatenate of {', '.join(narrow)} to {wanted.dtype}")
    return [build("qnn.concatenate", *operands, axis=expr.attrs.axis), wanted]


@register_fake_quantization_to_integer("topk")
def _topk(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    if expr.attrs.ret_type != "values":
        raise UnsupportedOperatorError(f"topk with ret_type {expr.attrs.ret_type!r}; only the values are quantised")
    require_per_tensor(expr, types[expr.args[0]])
    return [expr, types[expr.args[0]]]


@register_fake_quantization_to_integer("take")
def _take(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    require_per_tensor(expr, types[expr.args[0]])
    return [expr, types[expr.args[0]]]


@register_fake_quantization_to_integer("nn.pad")
def _pad(expr: Call, types: TypeMap) -> list[RelayExpr | AffineType]:
    data, value = expr.args
    ty = types[data]
    require_per_tensor(expr, ty)
    if value in types:
        value = requantized(value, types[value], ty)
    elif isinstance(value, Constant):
        # Frameworks write the padding as a number, without a quantisation of its own.
        value = build("qnn.quantize", value, ty.scale, ty.zero_point, out_dtype=ty.dtype)
    else:
        raise UnsupportedOperatorError("nn.pad with a value that is neither quantised nor a constant")
    return [entry("nn.pad").call(data, value, **attributes(expr)), ty]
