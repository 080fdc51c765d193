"""Gradients of operators of networks: products, convolutions, pools, softmax, losses."""

from __future__ import annotations

from ....errors import ModelError
from ...ir import Call, Expr, Op, TupleGetItem
from ...op.axis import resolve_axis
from ...op.nn.window import extent, padding_of
from .terms import call, fixed_shape, gradient_of, number, permuted, tensor_type, zeros

__all__: list[str] = []


@gradient_of("nn.bias_add")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [grad, call("sum", grad, axis=int(made.attrs.axis), exclude=True)]


@gradient_of("nn.softmax", "nn.fast_softmax")
def _(made: Call, grad: Expr) -> list[Expr]:
    total = call("sum", grad * made, axis=int(made.attrs.axis), keepdims=True)
    return [(grad - total) * made]


@gradient_of("nn.log_softmax")
def _(made: Call, grad: Expr) -> list[Expr]:
    total = call("sum", grad, axis=int(made.attrs.axis), keepdims=True)
    return [grad - call("exp", made) * total]


@gradient_of("nn.prelu")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, alpha = made.args
    rank, axis = len(tensor_type(data).shape), int(made.attrs.axis)
    is_positive, nothing = call("greater", data, zeros(data)), zeros(grad)
    over_axis = call("expand_dims", alpha, axis=1, num_newaxis=rank - 1 - resolve_axis(axis, rank))
    of_data = call("where", is_positive, grad, grad * over_axis)
    of_alpha = call("sum", call("where", is_positive, nothing, grad * data), axis=axis, exclude=True)
    return [of_data, call("collapse_sum_like", of_alpha, alpha)]


@gradient_of("nn.dropout")
def _(made: Call, grad: Expr) -> list[Expr]:
    # A program that runs drops nothing: the first field is the input.
    return [TupleGetItem(grad, 0)]


# -- products


def _two_axes(expr: Expr) -> Expr:
    """Return a tensor with all axes but the last joined."""
    if len(tensor_type(expr).shape) == 2:
        return expr
    return call("reshape", expr, newshape=[-1, tensor_type(expr).shape[-1]])


def _matrices(grad: Expr, made: Call) -> Expr:
    rank = len(tensor_type(made).shape)
    return grad if rank == 2 else call("reshape", grad, newshape=[-1, tensor_type(made).shape[-1]])


def _product(name: str, a: Expr, b: Expr, *, turn_a: bool, turn_b: bool) -> Expr:
    return call(name, a, b, transpose_a=turn_a, transpose_b=turn_b)


def _of_product(made: Call, grad: Expr, a: Expr, b: Expr) -> list[Expr]:
    """Return the gradients of the factors of a product, either of which may be transposed."""
    name, turn_a, turn_b = made.op.name, bool(made.attrs.transpose_a), bool(made.attrs.transpose_b)
    if turn_a:
        of_a = _product(name, b, grad, turn_a=turn_b, turn_b=True)
    else:
        of_a = _product(name, grad, b, turn_a=False, turn_b=not turn_b)
    if turn_b:
        of_b = _product(name, grad, a, turn_a=True, turn_b=turn_a)
    else:
        of_b = _product(name, a, grad, turn_a=not turn_a, turn_b=False)
    return [of_a, of_b]


@gradient_of("nn.dense")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, weight = made.args
    flat = _matrices(grad, made)
    of_data = _product("nn.matmul", flat, weight, turn_a=False, turn_b=False)
    of_weight = _product("nn.matmul", flat, _two_axes(data), turn_a=True, turn_b=False)
    return [call("reshape_like", of_data, data), of_weight]


@gradient_of("nn.matmul")
def _(made: Call, grad: Expr) -> list[Expr]:
    a, b = made.args
    if len(tensor_type(a).shape) != 2 and made.attrs.transpose_a:
        raise ModelError(f"nn.matmul with transpose_a has a gradient for matrices alone, not {tensor_type(a)}")
    of_a, of_b = _of_product(made, _matrices(grad, made), _two_axes(a), b)
    return [call("reshape_like", of_a, a), of_b]


@gradient_of("nn.batch_matmul")
def _(made: Call, grad: Expr) -> list[Expr]:
    # A batch of one is broadcast.
    found = _of_product(made, grad, *made.args)
    return [call("collapse_sum_like", g, arg) for g, arg in zip(found, made.args, strict=True)]


# -- convolutions and pools


@gradient_of("nn.conv2d")
def _(made: Call, grad: Expr) -> list[Expr]:
    data, weight = made.args
    attrs = made.attrs
    layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    if sorted(layout) != sorted("NCHW") or sorted(kernel_layout) != sorted("OIHW"):
        raise ModelError(f"nn.conv2d has no gradient in layouts of blocks: {layout} and {kernel_layout}")
    shape, kernel = fixed_shape(data, "nn.conv2d"), fixed_shape(weight, "nn.conv2d")
    sizes, windows = [shape[layout.index(a)] for a in "HW"], [kernel[kernel_layout.index(a)] for a in "HW"]
    steps, dilation = [int(s) for s in attrs.strides], [int(d) for d in attrs.dilation]
    padding = [int(p) for p in padding_of(attrs.padding, 2)]
    # Rows behind the last window that were read by none: the transposed convolution has to make them.
    left = [
        (size + padding[i] + padding[i + 2] - int(extent(window, step_of_taps))) % step
        for i, (size, window, step_of_taps, step) in enumerate(zip(sizes, windows, dilation, steps, strict=True))
    ]
    common = {"strides": steps, "padding": padding, "dilation": dilation, "groups": int(attrs.groups)}
    of_result = str(attrs.out_layout) or layout
    there, taps = _in_layout(grad, of_result, "NCHW"), _in_layout(weight, kernel_layout, "OIHW")
    of_data = call(
        "nn.conv2d_transpose",
        there,
        taps,
        channels=shape[layout.index("C")],
        kernel_size=windows,
        output_padding=left,
        **common,
    )
    of_weight = call(
        "nn.conv2d_backward_weight", there, _in_layout(data, layout, "NCHW"), kernel_size=windows, **common
    )
    return [_in_layout(of_data, "NCHW", layout), _in_layout(of_weight, "OIHW", kernel_layout)]


def _in_layout(expr: Expr, source: str, target: str) -> Expr:
    return expr if source == target else permuted(expr, [source.index(axis) for axis in target])


@gradient_of("nn.max_pool2d", "nn.avg_pool2d")
def _(made: Call, grad: Expr) -> list[Expr]:
    return [Call(Op.get(f"{made.op.name}_grad"), [grad, made.args[0]], made.attrs)]


@gradient_of("nn.global_avg_pool2d")
def _(made: Call, grad: Expr) -> list[Expr]:
    data = made.args[0]
    shape, layout = fixed_shape(data, "nn.global_avg_pool2d"), str(made.attrs.layout)
    count = shape[layout.index("H")] * shape[layout.index("W")]
    return [call("broadcast_to_like", grad / number(count, data), data)]


@gradient_of("nn.global_max_pool2d")
def _(made: Call, grad: Expr) -> list[Expr]:
    data = made.args[0]
    return [call("where", call("equal", made, data), call("broadcast_to_like", grad, data), zeros(data))]


# -- losses


@gradient_of("nn.cross_entropy")
def _(made: Call, grad: Expr) -> list[Expr]:
    x, y = made.args
    scaled = grad / number(fixed_shape(x, "nn.cross_entropy")[0], x)
    return [-(scaled * y / x), -(scaled * call("log", x))]


@gradient_of("nn.cross_entropy_with_logits")
def _(made: Call, grad: Expr) -> list[Expr]:
    x, y = made.args
    scaled = grad / number(fixed_shape(x, "nn.cross_entropy_with_logits")[0], x)
    return [-(scaled * y), -(scaled * x)]
