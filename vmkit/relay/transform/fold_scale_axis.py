"""Products with a scale for each channel move into the weights of convolutions and dense layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from ..ir import Call, Expr, Function, RelayExpr, children, is_call, post_order, rewrite
from ..op.registry import build
from .channel_scale import (
    ChannelScale,
    channel_axes,
    is_nonzero,
    is_positive,
    kernel_axes,
    lies_along,
    scale_of,
    static,
)
from .fold_constant import FoldConstant
from .known_type import type_of, with_type_of
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["BackwardFoldScaleAxis", "FoldScaleAxis", "ForwardFoldScaleAxis"]

_TRANSPOSED = ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", *_TRANSPOSED)
_KEEP_SIGNS = ("nn.relu", "nn.leaky_relu")
_SUMS = ("add", "subtract")

Substitutes = dict[Any, Any]


@relay_pass(opt_level=3)
def BackwardFoldScaleAxis() -> ModuleTransform:
    """Return the pass that moves scales of results back into the weights that the results are computed from."""
    return per_function(lambda function: _folded(function, _Backward))


@relay_pass(opt_level=3)
def ForwardFoldScaleAxis() -> ModuleTransform:
    """Return the pass that moves scales of data on into the weights that the data is used with."""
    return per_function(lambda function: _folded(function, _Forward))


@relay_pass(opt_level=3)
def FoldScaleAxis() -> ModuleTransform:
    """Return the pass that moves scales back, then on, and computes the weights that are constants."""
    steps = [BackwardFoldScaleAxis(), ForwardFoldScaleAxis(), FoldConstant()]

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        for step in steps:
            mod = step(mod)
        return mod

    return on_module


def _folded(function: Function, folding: Callable[[Function], Any]) -> Function:
    """Return a typed function in which scales have been folded until none can be."""
    while True:
        state = folding(function)
        found: Substitutes = {}
        for node in post_order(function):
            substitutes = state.folded(node) if is_call(node, "multiply") else None
            if substitutes is not None and not substitutes.keys() & found.keys():
                found.update(substitutes)
        if not found:
            return function
        function = _replaced(function, found)


def _replaced(function: Function, substitutes: Substitutes) -> Function:
    done: dict[Any, Any] = {}

    def typed(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if original in substitutes:
            # What stands below a substitute is as it was; it may have been replaced, too.
            node = rewrite(substitutes[original], done)
            type_of(node)
        else:
            with_type_of(node, original)
        done[original] = node
        return node

    return rewrite(function, {}, typed)


def _operands_of(product: Call) -> list[tuple[Expr, Expr]]:
    """Return the operands of a product, data first, in both ways; the data has the shape of the product."""
    x, y = product.args
    shape = [str(d) for d in static(product)]
    return [(data, factors) for data, factors in ((x, y), (y, x)) if [str(d) for d in static(data)] == shape]


def _scaled_weight(weight: Expr, scale: ChannelScale, axes: tuple[int, ...]) -> Expr | None:
    shape = static(weight)
    if not all(isinstance(d, int) for d in shape) or not scale.fits(axes, shape):
        return None
    return build("multiply", weight, scale.along(axes, shape))


class _Users:
    def __init__(self, function: Function) -> None:
        self.of: dict[Any, list[Any]] = {}
        for node in post_order(function):
            for part in children(node):
                self.of.setdefault(part, []).append(node)


class _Backward:
    """Moves the scale of a product back through what gives the data, where nothing else uses it."""

    def __init__(self, function: Function) -> None:
        self.users = _Users(function).of

    def folded(self, product: Call) -> Substitutes | None:
        for data, factors in _operands_of(product):
            scale = scale_of(factors, data)
            made = None if scale is None else self.absorbed(data, scale)
            if made is not None:
                return {product: made}
        return None

    def absorbed(self, expr: RelayExpr, scale: ChannelScale) -> Expr | None:
        """Return an expression times a scale, the scale folded in, or None where that cannot be."""
        if len(self.users.get(expr, ())) != 1:
            return None
        if is_call(expr, *_CONVOLUTIONS):
            return self.convolution(expr, scale)
        if is_call(expr, *_KEEP_SIGNS):
            inner = self.absorbed(expr.args[0], scale) if is_positive(scale.factors) else None
            return None if inner is None else Call(expr.op, [inner], expr.attrs, span=expr.span)
        return self.sum(expr, scale) if is_call(expr, *_SUMS) else None

    def convolution(self, conv: Call, scale: ChannelScale) -> Expr | None:
        attrs = conv.attrs
        if scale.axes and scale.axes != channel_axes(attrs.out_layout or attrs.data_layout):
            return None
        # A transposed one that makes one channel in each group has the groups along the other axis.
        is_single = is_call(conv, *_TRANSPOSED) and 1 < attrs.groups == scale.count
        weight = _scaled_weight(conv.args[1], scale, kernel_axes(attrs.kernel_layout, "I" if is_single else "O"))
        return None if weight is None else Call(conv.op, [conv.args[0], weight], attrs, span=conv.span)

    def sum(self, expr: Call, scale: ChannelScale) -> Expr | None:
        shape = static(expr)
        parts: list[Any] = []
        for part in expr.args:
            if [str(d) for d in static(part)] == [str(d) for d in shape]:
                parts.append(self.absorbed(part, scale))
            elif scale.axes and lies_along(part, scale.axes, len(shape)):
                parts.append(build("multiply", part, scale.along(scale.axes, shape)))
            else:
                parts.append(None if scale.axes else build("multiply", part, scale.vector))
        return None if any(p is None for p in parts) else Call(expr.op, parts, span=expr.span)


class _Forward:
    """Moves the scale of a product on through all uses of it, up to the weights that these meet."""

    def __init__(self, function: Function) -> None:
        self.users = _Users(function).of

    def folded(self, product: Call) -> Substitutes | None:
        for data, factors in _operands_of(product):
            scale = scale_of(factors, data)
            made: Substitutes = {product: data}
            if scale is not None and scale.axes and self.passed_on(product, scale, made):
                return made
        return None

    def passed_on(self, expr: RelayExpr, scale: ChannelScale, made: Substitutes) -> bool:
        """Say whether all users of an expression can do without its scale, and note what they become."""
        users = self.users.get(expr, [])
        return bool(users) and all(user in made or self.user(user, expr, scale, made) for user in users)

    def user(self, user: RelayExpr, expr: RelayExpr, scale: ChannelScale, made: Substitutes) -> bool:
        if is_call(user, *_KEEP_SIGNS):
            made[user] = user
            return is_positive(scale.factors) and self.passed_on(user, scale, made)
        if is_call(user, *_SUMS):
            return self.sum(user, expr, scale, made)
        weight = None
        if is_call(user, *_CONVOLUTIONS) and user.args[0].same_as(expr) and not user.args[1].same_as(expr):
            weight = self.convolution_weight(user, scale)
        elif is_call(user, "nn.dense") and user.args[0].same_as(expr) and not user.args[1].same_as(expr):
            is_last = scale.axes == (len(static(expr)) - 1,)
            weight = _scaled_weight(user.args[1], scale, (1,)) if is_last else None
        if weight is None:
            return False
        made[user] = Call(user.op, [user.args[0], weight], user.attrs, span=user.span)
        return True

    def convolution_weight(self, conv: Call, scale: ChannelScale) -> Expr | None:
        attrs = conv.attrs
        if scale.axes != channel_axes(attrs.data_layout):
            return None
        inputs, outputs = (kernel_axes(attrs.kernel_layout, letter) for letter in "IO")
        if attrs.groups == 1 or is_call(conv, *_TRANSPOSED):
            return _scaled_weight(conv.args[1], scale, inputs)
        # Of a depthwise convolution with one kernel for each channel, the outputs are the inputs.
        return _scaled_weight(conv.args[1], scale, outputs) if attrs.groups == scale.count else None

    def sum(self, user: Call, expr: RelayExpr, scale: ChannelScale, made: Substitutes) -> bool:
        position = 0 if user.args[0].same_as(expr) else 1
        other = user.args[1 - position]
        shape = static(user)
        if other.same_as(expr) or not lies_along(other, scale.axes, len(shape)) or not is_nonzero(scale.factors):
            return False
        args = list(user.args)
        args[1 - position] = build("divide", other, scale.along(scale.axes, shape))
        made[user] = Call(user.op, args, span=user.span)
        return self.passed_on(user, scale, made)
