"""Products with a scale for each channel move into the weights of convolutions and dense layers.

A scale moves back from the product to what computes its data, or on to all that uses the product, through what commutes
with it: ``nn.relu`` and ``nn.leaky_relu`` where it is known to be positive, and sums, whose other side is multiplied or
divided. What takes it says along which axes it has its channels; a product with a scale along any others stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm

from ..ir import Call, Expr, Function, RelayExpr, children, is_call, post_order, rewrite
from ..op.registry import build
from .channel_scale import (
    ChannelScale,
    channel_axes,
    is_as_large,
    is_known,
    is_nonzero,
    is_positive,
    kernel_axes,
    last_axis,
    lies_along,
    scale_of,
    scaled_weight,
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
Axes = tuple[int, ...]


@relay_pass(opt_level=3)
def BackwardFoldScaleAxis(*, run_time_weights: bool = True) -> ModuleTransform:
    """Return the pass that moves scales of results back into the weights that the results are computed from.

    A convolution or dense layer takes a scale of its output channels where the product is all that uses its result,
    perhaps after ``nn.relu``, ``nn.leaky_relu`` (for a constant scale above zero), ``nn.bias_add``, ``add`` and
    ``subtract``. Of a sum of two results each takes the scale, or none does.

    Parameters
    ----------
    run_time_weights : bool
        Whether dense layers take scales into weights that are computed when the program runs, which costs more than it
        saves where there are fewer rows of data than of the weight. Otherwise the scale and the weight must be
        constants, also of convolutions, and a dense layer all that uses its weight.
    """
    return per_function(lambda function: _folded(function, lambda f: _Backward(f, run_time_weights)))


@relay_pass(opt_level=3)
def ForwardFoldScaleAxis(*, run_time_weights: bool = True) -> ModuleTransform:
    """Return the pass that moves scales of data on into the weights that the data is used with.

    All that uses the product must take the scale: convolutions and dense layers along their input channels, and
    ``nn.relu``, ``nn.leaky_relu`` (for a constant scale above zero), ``add`` and ``subtract`` of a vector along the
    channels (for a constant scale without zeros), whose users do. Of grouped convolutions those take it that have one
    channel, and one kernel, in each group.

    Parameters
    ----------
    run_time_weights : bool
        Whether weights are computed when the program runs, too. Otherwise the scale and the weight must be constants.
    """
    return per_function(lambda function: _folded(function, lambda f: _Forward(f, run_time_weights)))


@relay_pass(opt_level=3)
def FoldScaleAxis(*, run_time_weights: bool = True) -> ModuleTransform:
    """Return the pass that moves scales back, then on, and computes the weights that are constants.

    Parameters
    ----------
    run_time_weights : bool
        What :func:`BackwardFoldScaleAxis` and :func:`ForwardFoldScaleAxis` are told.
    """
    told = {"run_time_weights": run_time_weights}
    steps = [BackwardFoldScaleAxis(**told), ForwardFoldScaleAxis(**told), FoldConstant()]

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
    return [(data, factors) for data, factors in ((x, y), (y, x)) if is_as_large(data, product)]


def _users(function: Function) -> dict[Any, list[Any]]:
    users: dict[Any, list[Any]] = {}
    for node in post_order(function):
        for part in children(node):
            users.setdefault(part, []).append(node)
    return users


class _Backward:
    """Moves the scale of a product back through what gives the data, where nothing else uses it."""

    def __init__(self, function: Function, run_time_weights: bool) -> None:
        self.users = _users(function)
        self.run_time_weights = run_time_weights

    def folded(self, product: Call) -> Substitutes | None:
        for data, factors in _operands_of(product):
            axes = self.channels(data)
            scale = None if axes is None else scale_of(factors, data, axes)
            made = None if scale is None else self.absorbed(data, scale)
            if made is not None:
                return {product: made}
        return None

    def channels(self, expr: RelayExpr) -> Axes | None:
        """Return the axes of what could take a scale of an expression, or None where nothing could."""
        if len(self.users.get(expr, ())) != 1:
            return None
        if is_call(expr, *_CONVOLUTIONS):
            return channel_axes(expr.attrs.out_layout or expr.attrs.data_layout)
        if is_call(expr, "nn.dense"):
            return last_axis(expr)
        if is_call(expr, *_KEEP_SIGNS, "nn.bias_add"):
            return self.channels(expr.args[0])
        if is_call(expr, *_SUMS):
            found = (self.channels(part) for part in expr.args if is_as_large(part, expr))
            return next((axes for axes in found if axes is not None), None)
        return None

    def absorbed(self, expr: RelayExpr, scale: ChannelScale) -> Expr | None:
        """Return an expression times a scale, the scale folded in, or None where that cannot be."""
        if len(self.users.get(expr, ())) != 1:
            return None
        if is_call(expr, *_CONVOLUTIONS):
            return self.convolution(expr, scale)
        if is_call(expr, "nn.dense"):
            return self.dense(expr, scale)
        if is_call(expr, *_KEEP_SIGNS):
            inner = self.absorbed(expr.args[0], scale) if is_positive(scale.factors) else None
            return None if inner is None else Call(expr.op, [inner], expr.attrs, span=expr.span)
        if is_call(expr, "nn.bias_add"):
            return self.biased(expr, scale)
        return self.sum(expr, scale) if is_call(expr, *_SUMS) else None

    def convolution(self, conv: Call, scale: ChannelScale) -> Expr | None:
        attrs = conv.attrs
        if not self.run_time_weights and not is_known(conv.args[1], scale):
            return None
        if scale.axes and scale.axes != channel_axes(attrs.out_layout or attrs.data_layout):
            return None
        # A transposed one that makes one channel in each group has the groups along the other axis.
        is_single = is_call(conv, *_TRANSPOSED) and 1 < attrs.groups == scale.count
        weight = scaled_weight(conv.args[1], scale, kernel_axes(attrs.kernel_layout, "I" if is_single else "O"))
        return None if weight is None else Call(conv.op, [conv.args[0], weight], attrs, span=conv.span)

    def dense(self, layer: Call, scale: ChannelScale) -> Expr | None:
        is_own = len(self.users[layer.args[1]]) == 1
        if not self.run_time_weights and not (is_own and is_known(layer.args[1], scale)):
            return None
        weight = scaled_weight(layer.args[1], scale, (0,)) if scale.axes in ((), last_axis(layer)) else None
        return None if weight is None else Call(layer.op, [layer.args[0], weight], layer.attrs, span=layer.span)

    def biased(self, expr: Call, scale: ChannelScale) -> Expr | None:
        data, bias = expr.args
        axis = expr.attrs.axis % len(static(expr))
        inner = self.absorbed(data, scale) if scale.axes in ((), (axis,)) else None
        if inner is None:
            return None
        return Call(expr.op, [inner, build("multiply", bias, scale.vector)], expr.attrs, span=expr.span)

    def sum(self, expr: Call, scale: ChannelScale) -> Expr | None:
        shape = static(expr)
        absorbed = [self.absorbed(part, scale) if is_as_large(part, expr) else None for part in expr.args]
        if all(part is None for part in absorbed):
            return None
        parts: list[Any] = []
        for part, made in zip(expr.args, absorbed, strict=True):
            if made is not None:
                parts.append(made)
            elif scale.axes and lies_along(part, scale.axes, len(shape)):
                parts.append(build("multiply", part, scale.along(scale.axes, shape)))
            elif not scale.axes and not is_as_large(part, expr):
                parts.append(build("multiply", part, scale.vector))
            else:
                return None
        return Call(expr.op, parts, span=expr.span)


class _Forward:
    """Moves the scale of a product on through all uses of it, up to the weights that these meet."""

    def __init__(self, function: Function, run_time_weights: bool) -> None:
        self.users = _users(function)
        self.run_time_weights = run_time_weights
        # What is known of expressions that several paths lead to.
        self.known_channels: dict[Any, Axes | None] = {}

    def folded(self, product: Call) -> Substitutes | None:
        axes = self.channels(product)
        if axes is None:
            return None
        for data, factors in _operands_of(product):
            scale = scale_of(factors, data, axes)
            made: Substitutes = {product: data}
            if scale is not None and scale.axes and self.passed_on(product, scale, made):
                return made
        return None

    def channels(self, expr: RelayExpr) -> Axes | None:
        """Return the axes of the first that could take a scale of an expression, or None where nothing could."""
        if expr not in self.known_channels:
            found = (self.channels_in(user, expr) for user in self.users.get(expr, ()))
            self.known_channels[expr] = next((axes for axes in found if axes is not None), None)
        return self.known_channels[expr]

    def channels_in(self, user: RelayExpr, expr: RelayExpr) -> Axes | None:
        if is_call(user, *_CONVOLUTIONS) and user.args[0].same_as(expr):
            return channel_axes(user.attrs.data_layout)
        if is_call(user, "nn.dense") and user.args[0].same_as(expr):
            return last_axis(expr)
        is_passed_on = is_call(user, *_KEEP_SIGNS, *_SUMS) and is_as_large(expr, user)
        return self.channels(user) if is_passed_on else None

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
        if not is_call(user, *_CONVOLUTIONS, "nn.dense"):
            return False
        weight = None
        if not self.run_time_weights and not is_known(user.args[1], scale):
            return False
        if user.args[0].same_as(expr) and not user.args[1].same_as(expr):
            if is_call(user, *_CONVOLUTIONS):
                weight = self.convolution_weight(user, scale)
            elif scale.axes == last_axis(expr):
                weight = scaled_weight(user.args[1], scale, (1,))
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
            return scaled_weight(conv.args[1], scale, inputs)
        # Of a depthwise convolution with one kernel for each channel, the outputs are the inputs.
        return scaled_weight(conv.args[1], scale, outputs) if attrs.groups == scale.count else None

    def sum(self, user: Call, expr: RelayExpr, scale: ChannelScale, made: Substitutes) -> bool:
        position = 0 if user.args[0].same_as(expr) else 1
        other = user.args[1 - position]
        shape = static(user)
        if other.same_as(expr) or not is_as_large(expr, user) or not is_nonzero(scale.factors):
            return False
        if not lies_along(other, scale.axes, len(shape)):
            return False
        args = list(user.args)
        args[1 - position] = build("divide", other, scale.along(scale.axes, shape))
        made[user] = Call(user.op, args, span=user.span)
        return self.passed_on(user, scale, made)
