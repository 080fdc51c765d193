"""Rows and columns of a convolution's window that see nothing but padding are left out of its weight.

On maps that are smaller than half of a window, as at the end of a deep network for small pictures, or in dilated
branches, most of a weight is multiplied by zeros: of 3x3 elements on a map of one, padded by one all around, only the
middle one sees data.
"""

from __future__ import annotations

import numpy as np

from ..relay.ir import Call, Constant, Function, RelayExpr, is_call
from ..relay.op.nn.window import padding_of
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.share_constants import SharedConstants

__all__ = ["TrimWindows"]

_SPATIAL = {"nn.conv1d": "W", "nn.conv2d": "HW", "nn.conv3d": "DHW"}


@relay_pass(opt_level=1)
def TrimWindows() -> ModuleTransform:
    """Return the pass that cuts constant weights of convolutions to what meets data, and the padding with them."""

    def on_function(function: Function) -> Function:
        shared = SharedConstants()
        return rewrite_typed(function, lambda node: _trimmed(node, shared))

    return per_function(on_function)


def _trimmed(node: RelayExpr, shared: SharedConstants) -> RelayExpr:
    if not is_call(node, *_SPATIAL):
        return node
    attrs, (data, weight), axes = node.attrs, node.args, _SPATIAL[node.op.name]
    data_layout, kernel_layout = str(attrs.data_layout), str(attrs.kernel_layout)
    if not isinstance(weight, Constant) or sorted(data_layout) != sorted("NC" + axes):
        return node
    if sorted(kernel_layout) != sorted("OI" + axes) or not any(attrs.padding):
        return node
    padding = padding_of(attrs.padding, len(axes))
    cut = [slice(None)] * len(kernel_layout)
    for at, axis in enumerate(axes):
        size, window = data.checked_type.shape[data_layout.index(axis)], weight.checked_type.shape
        if not isinstance(size, int):
            continue
        taps, step, gap = int(window[kernel_layout.index(axis)]), int(attrs.strides[at]), int(attrs.dilation[at])
        before, after = _unseen(size, taps, step, gap, (padding[at], padding[at + len(axes)]))
        cut[kernel_layout.index(axis)] = slice(before, taps - after)
        padding[at] -= before * gap
        padding[at + len(axes)] -= after * gap
    if padding == padding_of(attrs.padding, len(axes)):
        return node
    kept = weight.data.numpy()[tuple(cut)]
    values = {each.name: getattr(attrs, each.name) for each in attrs.declared}
    values["padding"] = padding
    values["kernel_size"] = [kept.shape[kernel_layout.index(axis)] for axis in axes]
    constant = shared.const(np.ascontiguousarray(kept))
    return Call(node.op, [data, constant], type(attrs)(**values), span=node.span)


def _unseen(size: int, taps: int, step: int, gap: int, padding: tuple[int, int]) -> tuple[int, int]:
    """Return how many elements of a window, at its beginning and its end, are in the padding wherever it stands.

    Parameters
    ----------
    size : int
        Of the data along the axis.
    taps, step, gap : int
        How many elements a window has, from window to window, and from element to element of one.
    padding : tuple of int
        Before the data and behind it. No more elements are counted than there is padding to leave out with them.
    """
    windows = (size + sum(padding) - (taps - 1) * gap - 1) // step + 1

    def sees_data(tap: int) -> bool:
        first = padding[0] - tap * gap  # where a window has to begin for this element to be the first of the data
        at = max(0, -(-first // step))
        return at < windows and at * step < first + size

    seen = [tap for tap in range(taps) if sees_data(tap)]
    if not seen:
        return 0, 0
    return min(seen[0], padding[0] // gap), min(taps - 1 - seen[-1], padding[1] // gap)
