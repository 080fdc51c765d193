"""Gradients of operators that move elements: shapes, orders, joints, slices, indices."""

from __future__ import annotations

import math

from ....errors import ModelError
from ...ir import Call, Expr, Tuple, TupleType, const
from ...op.axis import resolve_axis
from ...op.slice import StridedSliceAttrs
from .terms import call, fixed_shape, gradient_of, permuted, tensor_type, unbroadcast, zeros

__all__: list[str] = []

_WHOLE = 2**31 - 1  # to the end of an axis, however long it is


@gradient_of("reshape", "expand_dims", "squeeze", "nn.batch_flatten", "contrib_reverse_reshape")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("reshape_like", grad, made.args[0])]


@gradient_of("dyn.reshape")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("reshape_like", grad, made.args[0]), zeros(made.args[1])]


@gradient_of("reshape_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("reshape_like", grad, made.args[0]), zeros(made.args[1])]


@gradient_of("broadcast_to")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [unbroadcast(grad, made.args[0], made)]


@gradient_of("broadcast_to_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [unbroadcast(grad, made.args[0], made), zeros(made.args[1])]


@gradient_of("collapse_sum_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("broadcast_to_like", grad, made.args[0]), zeros(made.args[1])]


@gradient_of("collapse_sum_to")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("broadcast_to_like", grad, made.args[0]), zeros(made.args[1])]


@gradient_of("transpose")
def _(made: Call, grad: Expr) -> list[Expr]:
    rank = len(tensor_type(made.args[0]).shape)
    axes = [resolve_axis(int(a), rank) for a in made.attrs.axes or reversed(range(rank))]
    return [permuted(grad, [axes.index(axis) for axis in range(rank)])]


@gradient_of("reverse")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [call("reverse", grad, axis=made.attrs.axis)]


@gradient_of("layout_transform")
def _(made: Call, grad: Expr) -> list[Expr]:
    moved = call("layout_transform", grad, made.attrs.dst_layout, made.attrs.src_layout)
    return [call("reshape_like", moved, made.args[0])]


@gradient_of("tile")
def _(made: Call, grad: Expr) -> list[Expr]:
    shape, reps = fixed_shape(made.args[0], "tile"), [int(r) for r in made.attrs.reps]
    shape, reps = [1] * (len(reps) - len(shape)) + shape, [1] * (len(shape) - len(reps)) + reps
    pairs = [size for pair in zip(reps, shape, strict=True) for size in pair]
    summed = call("sum", call("reshape", grad, newshape=pairs), axis=list(range(0, len(pairs), 2)))
    return [call("reshape_like", summed, made.args[0])]


@gradient_of("repeat")
def _(made: Call, grad: Expr) -> list[Expr]:
    shape, repeats = fixed_shape(made.args[0], "repeat"), int(made.attrs.repeats)
    if made.attrs.axis is None:
        shape, axis = [math.prod(shape)], 0
    else:
        axis = resolve_axis(int(made.attrs.axis), len(shape))
    apart = call("reshape", grad, newshape=[*shape[: axis + 1], repeats, *shape[axis + 1 :]])
    return [call("reshape_like", call("sum", apart, axis=axis + 1), made.args[0])]


# -- joints


@gradient_of("concatenate")
def _(made: Call, grad: Expr) -> list[Expr]:
    fields = made.args[0].checked_type.fields
    axis = resolve_axis(int(made.attrs.axis), len(fields[0].shape))
    parts, at = [], 0
    for field in fields:
        size = field.shape[axis]
        if not isinstance(size, int):
            raise ModelError(f"the gradient of concatenate takes known sizes on axis {axis}, not {field}")
        parts.append(call("strided_slice", grad, begin=[at], end=[at + size], axes=[axis]))
        at += size
    return [Tuple(parts)]


@gradient_of("stack")
def _(made: Call, grad: Expr) -> list[Expr]:
    fields = made.args[0].checked_type.fields
    axis = resolve_axis(int(made.attrs.axis), len(fields[0].shape) + 1)
    return [Tuple([call("take", grad, const(at, "int32"), axis=axis) for at in range(len(fields))])]


@gradient_of("split")
def _(made: Call, grad: Expr) -> list[Expr]:
    assert isinstance(made.checked_type, TupleType)
    return [call("concatenate", grad, axis=int(made.attrs.axis))]


# -- slices


def _placed(data: Expr, grad: Expr, begin: list[int], end: list[int], strides: list[int]) -> Expr:
    return call("strided_set", zeros(data), grad, *(const(each, "int64") for each in (begin, end, strides)))


@gradient_of("strided_slice")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, attrs = made.args[0], made.attrs
    rank = len(tensor_type(data).shape)
    begin, end, strides = [0] * rank, [_WHOLE] * rank, [1] * rank
    given = _positions(attrs)
    axes = range(len(given)) if attrs.axes is None else [resolve_axis(int(a), rank) for a in attrs.axes]
    for axis, (first, last, step) in zip(axes, given, strict=True):
        begin[axis], end[axis], strides[axis] = first, last, step
    return [_placed(data, grad, begin, end, strides)]


def _positions(attrs: StridedSliceAttrs) -> list[tuple[int, int, int]]:
    """Return first position, position behind the last, and step, for each axis that a slice names."""
    begin, last = [int(b) for b in attrs.begin or ()], [int(e) for e in attrs.end or ()]
    if attrs.slice_mode == "size":
        sized = zip(begin, last, strict=True)
        return [(first, _WHOLE if size < 0 else first + size, 1) for first, size in sized]
    steps = [int(s) for s in attrs.strides or ()]
    steps += [steps[-1] if len(steps) == 1 else 1] * (len(begin) - len(steps))
    return list(zip(begin, last, steps, strict=True))


@gradient_of("strided_set")
def _(made: Call, grad: Expr) -> list[Expr]:
    _, value, *positions = made.args
    begin, end, strides = positions
    of_value = call("reshape_like", call("strided_slice", grad, begin, end, strides), value)
    return [call("strided_set", grad, zeros(value), *positions), of_value, *(zeros(p) for p in positions)]


@gradient_of("slice_like")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, like = made.args
    sizes = fixed_shape(made, "slice_like")
    return [_placed(data, grad, [0] * len(sizes), sizes, [1] * len(sizes)), zeros(like)]


@gradient_of("nn.pad")
def _(made: Call, grad: Expr) -> list[Expr]:
    _, value = made.args
    if made.attrs.pad_mode != "constant":
        raise ModelError(f"nn.pad has a gradient in pad_mode 'constant' alone, not {made.attrs.pad_mode!r}")
    widths = [(int(before), int(behind)) for before, behind in made.attrs.pad_width]
    if any(width < 0 for pair in widths for width in pair):
        raise ModelError(f"nn.pad has no gradient where elements are taken away: pad_width={widths}")
    begin, end = [before for before, _ in widths], [-behind or _WHOLE for _, behind in widths]
    inner = call("strided_slice", grad, begin=begin, end=end)
    return [inner, call("reshape_like", call("sum", grad) - call("sum", inner), value)]


# -- indices


@gradient_of("take")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, indices = made.args
    attrs = made.attrs
    if attrs.batch_dims:
        raise ModelError(f"take has a gradient without batch_dims alone, not with {attrs.batch_dims}")
    shape, count = fixed_shape(data, "take"), len(tensor_type(indices).shape)
    axis = 0 if attrs.axis is None else resolve_axis(int(attrs.axis), len(shape))
    start = zeros(call("reshape", data, newshape=[-1]) if attrs.axis is None else data)
    shape = [math.prod(shape)] if attrs.axis is None else shape
    # scatter_nd goes over first axes: the one that is indexed comes to the front, and back.
    forth = [axis, *(a for a in range(len(shape)) if a != axis)]
    moved = permuted(grad, [*range(axis, axis + count), *range(axis), *range(axis + count, count + len(shape) - 1)])
    places = call("expand_dims", _limited(indices, shape[axis], attrs.mode), axis=0)
    summed = call("scatter_nd", permuted(start, forth), places, moved, mode="add")
    back = permuted(summed, [forth.index(a) for a in range(len(shape))])
    return [call("reshape_like", back, data), zeros(indices)]


def _limited(indices: Expr, size: int, mode: str) -> Expr:
    """Return indices as `take` reads them: moved to the edge, or counted from the other end."""
    dtype = tensor_type(indices).dtype
    if mode == "wrap":
        return call("floor_mod", indices, const(size, dtype))
    return call("clip", indices, a_min=0, a_max=size - 1)


@gradient_of("gather")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, indices = made.args
    axis = resolve_axis(int(made.attrs.axis), len(tensor_type(data).shape))
    return [call("scatter_elements", zeros(data), indices, grad, axis=axis, reduction="add"), zeros(indices)]


@gradient_of("gather_nd")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, indices = made.args
    if made.attrs.batch_dims:
        raise ModelError(f"gather_nd has a gradient without batch_dims alone, not with {made.attrs.batch_dims}")
    return [call("scatter_nd", zeros(data), indices, grad, mode="add"), zeros(indices)]


@gradient_of("scatter_nd")
def _(made: Call, grad: Expr) -> list[Expr]:
    _, indices, _ = made.args
    if made.attrs.mode != "add":
        raise ModelError(f"scatter_nd has a gradient in mode 'add' alone, not {made.attrs.mode!r}")
    return [grad, zeros(indices), call("gather_nd", grad, indices)]


@gradient_of("scatter_elements")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, indices, _ = made.args
    if made.attrs.reduction != "add":
        raise ModelError(f"scatter_elements has a gradient with reduction 'add' alone, not {made.attrs.reduction!r}")
    axis = resolve_axis(int(made.attrs.axis), len(tensor_type(data).shape))
    return [grad, zeros(indices), call("gather", grad, axis, indices)]
