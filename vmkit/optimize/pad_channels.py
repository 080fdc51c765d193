"""Convolutions of a few channels too few for whole vectors compute those as well, where tiles make them faster.

Winograd's tiles have vectors of the result's channels. Of 40 channels they need 48, and take less than half as long as
the plain sum of the 40.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ..kernels.winograd_plan import Machine, plan_winograd
from ..kernels.winograd_shape import WinogradShape
from ..relay.ir import Call, Constant, Function, Op, RelayExpr, const
from ..relay.op.nn.window import padding_of
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..target.processor import Processor
from ..values.host_memory import as_array
from .layout_choice import ConvSizes
from .use_winograd import is_whole, shape_without_tiles

__all__ = ["PadChannels"]

_WORTH = 0.57  # of the time of the plain sum: the estimates of it are low, and those of tiles lack turning round
_CUT = 0.35  # cycles of an element of the result, from which the channels that are too many are cut off
_LARGEST_WINDOW = 5
_AXIS = 1


@relay_pass(opt_level=1)
def PadChannels(
    processor: Processor,
    lanes: int = 16,
    registers: int = 32,
    cores: int = 1,
    has_matrix_unit: bool = False,
    passes: int = 1,
    shares_kernels: bool = False,
) -> ModuleTransform:
    """Return the pass that gives convolutions with channels first, and constant weights, more channels of zeros.

    What follows a convolution with a constant for each channel, or with none, has them, too, and then they are cut off.

    Parameters
    ----------
    processor
        For which time is estimated.
    lanes, registers, cores, has_matrix_unit, passes
        As :func:`vmkit.optimize.use_winograd.UseWinograd` has them.
    shares_kernels : bool
        Whether convolutions that differ in sizes alone call one kernel: then none gets more channels, for whether there
        are tiles is told by all of them together.
    """
    if shares_kernels:
        return per_function(lambda function: function)
    machine = Machine(lanes, registers, cores, has_matrix_unit, passes)
    return per_function(lambda function: _Padding(processor, machine).changed(function))


class _Padding:
    """The change of one function."""

    def __init__(self, processor: Processor, machine: Machine) -> None:
        self._processor = processor
        self._machine = machine
        # What computes more channels than the calls that cut them off again, by these.
        self._whole: dict[RelayExpr, RelayExpr] = {}

    def changed(self, function: Function) -> Function:
        return rewrite_typed(function, self._padded)

    def _padded(self, node: RelayExpr) -> RelayExpr:
        if not (isinstance(node, Call) and isinstance(node.op, Op)):
            return node
        if node.op.name == "nn.conv2d":
            count = self._count(node)
            return node if count is None else self._cut(_convolution(node, count), node)
        source = self._whole.get(node.args[0]) if node.args else None
        if source is None:
            return node
        count = int(source.checked_type.shape[_AXIS])
        if node.op.name in ("nn.relu", "clip"):
            return self._cut(Call(node.op, [source], node.attrs), node)
        added = _of_channels(node)
        if added is None:
            return node
        more = np.pad(added, (0, count - added.size))
        return self._cut(build("nn.bias_add", source, const(more), axis=_AXIS), node)

    def _cut(self, whole: RelayExpr, node: Call) -> RelayExpr:
        channels = int(node.checked_type.shape[_AXIS])
        made: RelayExpr = build("strided_slice", whole, [0], [channels], axes=[_AXIS])
        self._whole[made] = whole
        return made

    def _count(self, node: Call) -> int | None:
        """Return how many channels a convolution is to have; None for as many as it has."""
        sizes, lanes = ConvSizes.of(node), self._machine.lanes
        if sizes is None or sizes.groups != 1 or lanes < 4 or sizes.inner % lanes or sizes.outer % lanes == 0:
            return None
        if 2 * sizes.outer < lanes:
            return None  # lines of few channels are short work
        if any(n != 1 for n in (*sizes.strides, *sizes.dilation)) or not 1 < max(sizes.window) <= _LARGEST_WINDOW:
            return None
        if is_whole(as_array(node.args[1].data)):
            return None
        count = -(-sizes.outer // lanes) * lanes
        if plan_winograd(_shape(node, sizes, count, lanes), self._machine) is None:
            return None
        plain = min(sizes.cycles_last(self._processor), sizes.cycles_first(self._processor))
        padded = replace(sizes, outer=count).cycles_last(self._processor)
        cut = _CUT * sizes.batch * sizes.outer * prod(sizes.made)
        return count if padded + cut < _WORTH * plain else None


def _shape(node: Call, sizes: ConvSizes, count: int, lanes: int) -> WinogradShape:
    batch, _, height, width = node.args[0].checked_type.shape
    top, left, bottom, right = padding_of(node.attrs.padding, 2)
    window, channels = (sizes.window[0], sizes.window[1]), (sizes.inner, count)
    return shape_without_tiles(window, (batch, height, width), channels, (top, left, bottom, right), lanes)


def _convolution(node: Call, count: int) -> RelayExpr:
    """Return a convolution with more channels, whose weights are zeros."""
    attrs, weight = node.attrs, node.args[1].data.numpy()
    more = np.pad(weight, [(0, count - weight.shape[0])] + [(0, 0)] * (weight.ndim - 1))
    fields = {each.name: getattr(attrs, each.name) for each in attrs.declared}
    return build("nn.conv2d", node.args[0], const(more), **{**fields, "channels": count})


def _of_channels(node: Call) -> np.ndarray | None:
    """Return the constant of each channel that a call adds to its first argument; None of another call."""
    if node.op.name not in ("nn.bias_add", "add") or not isinstance(node.args[1], Constant):
        return None
    value, channels = node.args[1].data.numpy(), int(node.checked_type.shape[_AXIS])
    if node.op.name == "nn.bias_add":
        return value if int(node.attrs.axis) == _AXIS and value.shape == (channels,) else None
    is_of_channels = value.ndim in (3, 4) and value.shape[-3:] == (channels, 1, 1) and value.size == channels
    return value.reshape(-1) if is_of_channels else None
