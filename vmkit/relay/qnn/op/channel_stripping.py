"""Channels of quantised convolutions that do not depend on the input leave: what they add goes into a bias.

Training may leave channels whose kernel is nothing but its zero point. Their results are constants, of the bias alone,
and so is what a depthwise convolution or a mean makes of them. The values are computed by the operators themselves, so
that they are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from ...ir import Call, Constant, RelayExpr, TensorType, Type, const, is_call
from ...op.attrs import Attrs
from ...op.nn.layout import axes_of
from ...op.registry import entry
from .canonicalizations import run_const_expr
from .integer_products import attribute_values
from .legalizations import qnn_bias_add_legalize

__all__ = ["legalize_bias_add"]

Types: TypeAlias = Sequence[Type]

_LAYER = ("qnn.requantize", "nn.bias_add", "qnn.conv2d")
_DEPTHWISE = ("qnn.conv2d", *_LAYER, *_LAYER)
_POOLED = ("qnn.dense", "reshape", "reshape", "cast", "nn.avg_pool2d", "cast", *_LAYER)


@qnn_bias_add_legalize.register("arm_cpu")
def legalize_bias_add(attrs: Attrs, inputs: Sequence[RelayExpr], types: Types) -> Call | None:
    """Return the sum of a product and a bias without the channels before it that are constants; None without any.

    The product is a convolution after a depthwise and another convolution, or dense after a mean over all of a
    convolution's result. The number of channels that leave is even.

    Parameters
    ----------
    attrs, inputs, types
        Those of a call of nn.bias_add.
    """
    chain = _chain(inputs[0], len(_POOLED))
    if not isinstance(inputs[1], Constant):
        return None
    if _is_chain(chain, _DEPTHWISE):
        made = _after_depthwise(chain)
    elif _is_chain(chain, _POOLED):
        made = _after_pool(chain)
    else:
        return None
    if made is None:
        return None
    product, extra = made
    bias = inputs[1].data.numpy()
    return entry("nn.bias_add").call(product, const((bias + extra).astype(bias.dtype)), **attribute_values(attrs))


def _chain(expr: RelayExpr, length: int) -> list[Call]:
    """Return calls, each of the first argument of that before it."""
    found: list[Call] = []
    while isinstance(expr, Call) and len(found) < length:
        found.append(expr)
        expr = expr.args[0] if expr.args else expr.op
    return found


def _is_chain(chain: Sequence[Call], names: Sequence[str]) -> bool:
    """Say whether calls have these names, and constants beside their data."""
    return len(chain) >= len(names) and all(
        is_call(call, name) and all(isinstance(a, Constant) for a in list(call.args)[1:])
        for call, name in zip(chain, names, strict=False)
    )


def _rebuilt(call: Call, *args: RelayExpr, **changed: Any) -> Call:
    """Return a call with other first arguments, and some attributes changed."""
    operands = [*args, *list(call.args)[len(args) :]]
    return entry(call.op.name).call(*operands, **{**attribute_values(call.attrs), **changed})


def _kernel(call: Call) -> np.ndarray:
    """Return the kernel of a convolution less its zero point, the channels of its result first."""
    array, zero = (call.args[k].data.numpy().astype("int64") for k in (1, 3))
    moved = np.moveaxis(array, axes_of(call.attrs.kernel_layout).index("O"), 0)
    return moved - (zero.reshape(-1, *[1] * (moved.ndim - 1)) if zero.size > 1 else zero)


def _constant_channels(layer: Sequence[Call]) -> dict[int, int]:
    """Return the channels of a quantised convolution that do not depend on its input, and their values."""
    requantize, bias_add, conv = layer
    empty = [c for c, kernel in enumerate(_kernel(conv)) if not kernel.any()]
    if not empty or conv.attrs.groups != 1:
        return {}
    sums = np.zeros([1 if k != bias_add.attrs.axis % 4 else len(_kernel(conv)) for k in range(4)], "int32")
    values = run_const_expr(_rebuilt(requantize, _rebuilt(bias_add, const(sums)))).reshape(-1)
    return {c: int(values[c]) for c in empty}


def _constant_after_depthwise(layer: Sequence[Call], known: dict[int, int]) -> dict[int, int]:
    """Return the channels of a depthwise convolution whose whole result is one value, borders among it."""
    requantize, bias_add, conv = layer
    channels = len(_kernel(conv))
    ty = conv.args[0].checked_type
    at = axes_of(conv.attrs.data_layout).index("C")
    if not known or conv.attrs.groups != channels or ty.shape[at] != channels or not _is_static(ty):
        return {}
    filled = np.zeros(ty.concrete_shape, ty.dtype)
    for channel, value in known.items():
        np.moveaxis(filled, at, 0)[channel] = value
    made = np.moveaxis(run_const_expr(_rebuilt(requantize, _rebuilt(bias_add, _rebuilt(conv, const(filled))))), at, 0)
    return {c: int(made[c].flat[0]) for c in known if (made[c] == made[c].flat[0]).all()}


def _is_static(ty: Type) -> bool:
    return isinstance(ty, TensorType) and all(isinstance(d, int) for d in ty.shape)


def _even(known: dict[int, int]) -> dict[int, int]:
    """Return an even number of channels: processors multiply them in pairs."""
    return dict(list(known.items())[: len(known) // 2 * 2])


def _without(layer: Sequence[Call], gone: Sequence[int], data: RelayExpr) -> Call:
    """Return a quantised convolution of data without some channels of its result."""
    requantize, bias_add, conv = layer
    axis = axes_of(conv.attrs.kernel_layout).index("O")
    left = len(_kernel(conv)) - len(gone)
    kernel = const(np.delete(conv.args[1].data.numpy(), gone, axis=axis))
    parameters = [conv.args[2], _shorter(conv.args[3], gone), conv.args[4], _shorter(conv.args[5], gone)]
    groups = left if conv.attrs.groups > 1 else 1
    made = _rebuilt(conv, data, kernel, *parameters, channels=left, groups=groups)
    made = _rebuilt(bias_add, made, const(np.delete(bias_add.args[1].data.numpy(), gone)))
    return _rebuilt(requantize, made, *(_shorter(requantize.args[k], gone) for k in (1, 2)))


def _shorter(parameter: Constant, gone: Sequence[int]) -> Constant:
    array = parameter.data.numpy()
    return parameter if array.size == 1 else const(np.delete(array, gone))


def _after_depthwise(chain: Sequence[Call]) -> tuple[Call, np.ndarray] | None:
    last, depthwise, top = chain[0], chain[1:4], chain[4:7]
    if last.attrs.groups != 1 or any(last.attrs.padding) or depthwise[2].attrs.groups == 1:
        return None
    known = _even(_constant_after_depthwise(depthwise, _constant_channels(top)))
    if not known:
        return None
    gone = list(known)
    data = _without(depthwise, gone, _without(top, gone, top[2].args[0]))
    layout = axes_of(last.attrs.kernel_layout)
    kernel = last.args[1].data.numpy()
    by_input = np.moveaxis(kernel, layout.index("I"), 0)
    moved = np.moveaxis(_kernel(last), 1 + layout.replace("O", "").index("I"), 1)
    shifted = np.array([known[c] for c in gone]) - int(last.args[2].data.numpy().item())
    extra = (moved[:, gone].reshape(len(moved), len(gone), -1).sum(-1) * shifted).sum(-1)
    left = np.moveaxis(np.delete(by_input, gone, axis=0), 0, layout.index("I"))
    return _rebuilt(last, data, const(left)), extra


def _after_pool(chain: Sequence[Call]) -> tuple[Call, np.ndarray] | None:
    dense, _, reshape, outer, pool, inner = chain[:6]
    top = chain[6:9]
    weight, zero = (dense.args[k].data.numpy().astype("int64") for k in (1, 3))
    is_whole = pool.attrs.layout == "NHWC" and not any(pool.attrs.padding) and _is_static(pool.checked_type)
    shape = pool.checked_type.shape
    if not is_whole or list(shape[1:3]) != [1, 1] or weight.shape[1] != shape[3]:
        return None
    known = _even(_constant_channels(top))
    if not known:
        return None
    gone = list(known)
    data = _rebuilt(outer, _rebuilt(pool, _rebuilt(inner, _without(top, gone, top[2].args[0]))))
    data = _rebuilt(reshape, data, newshape=[-1, weight.shape[1] - len(gone)])
    shifted = np.array([known[c] for c in gone]) - int(dense.args[2].data.numpy().item())
    offset = zero.reshape(-1, 1) if zero.size > 1 else zero
    extra = ((weight - offset)[:, gone] * shifted).sum(-1)
    return _rebuilt(dense, data, const(np.delete(dense.args[1].data.numpy(), gone, axis=1))), extra
