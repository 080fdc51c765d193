"""Padding that a convolution or a pool can do by itself moves into its attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..ir import Call, Constant, RelayExpr, is_call
from ..op.nn.layout import Layout
from ..op.pointwise import MAX_POOLS
from .known_type import rewrite_typed
from .layout_rules import with_attrs
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["FoldExplicitPadding"]

_SPATIAL = "DHW"
_CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.contrib_conv2d_NCHWc")
_AVERAGES = ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")


@relay_pass(opt_level=0)
def FoldExplicitPadding() -> ModuleTransform:
    """Return the pass that moves ``nn.pad`` into the convolution or pool that alone sees what it adds.

    Only what is added to spatial axes is moved, and only where the operator adds the same by itself: zeros for a
    convolution and an average, the input's zero point for ``qnn.conv2d``, and the least number of the data type for a
    maximum. An average then counts what is padded, as it did.
    """
    return per_function(lambda function: rewrite_typed(function, _folded))


def _folded(node: RelayExpr) -> RelayExpr:
    fold = next((fold for names, fold in _FOLDS if is_call(node, *names)), None)
    if fold is None or not isinstance(node, Call) or not is_call(node.args[0], "nn.pad"):
        return node
    if node.args[0].attrs.pad_mode != "constant":
        return node
    pad = node.args[0]
    attrs = fold(node, pad)
    widths = _widths(pad.attrs.pad_width, _layout(node))
    if attrs is None or widths is None:
        return node
    own = _each_side(list(node.attrs.padding), len(widths))
    padding = [a + b for a, b in zip(widths, own, strict=True)]
    return Call(node.op, [pad.args[0], *node.args[1:]], with_attrs(node, **attrs, padding=padding), span=node.span)


def _layout(call: Call) -> Layout:
    return Layout.of(call.attrs.data_layout if hasattr(call.attrs, "data_layout") else call.attrs.layout)


def _widths(pad_width: Sequence[Sequence[int]], layout: Layout) -> list[int] | None:
    """Return what is added before all spatial axes, then behind; None where other axes are padded too."""
    rows = [(axis, [int(w) for w in widths]) for (axis, _), widths in zip(layout.axes, pad_width, strict=True)]
    if any(axis not in _SPATIAL and any(widths) for axis, widths in rows):
        return None
    return [widths[side] for side in (0, 1) for axis, widths in rows if axis in _SPATIAL]


def _each_side(padding: list[int], count: int) -> list[int]:
    """Return padding, which may be said once for all sides or once for both, for each side."""
    return padding * (count // len(padding))


# -- the changes of attributes with which an operator can pad by itself, or None


def _convolution(call: Call, pad: Call) -> dict[str, bool] | None:
    return {} if _number(pad.args[1]) == 0 else None


def _quantized_convolution(call: Call, pad: Call) -> dict[str, bool] | None:
    value, zero = pad.args[1], call.args[2]
    number = _number(value)
    return {} if value.same_as(zero) or (number is not None and number == _number(zero)) else None


def _average(call: Call, pad: Call) -> dict[str, bool] | None:
    if _number(pad.args[1]) != 0:
        return None
    if call.attrs.count_include_pad:
        return {}
    # What the average pads by itself is not counted, and windows that reach past the end count less, too.
    return None if any(call.attrs.padding) or call.attrs.ceil_mode else {"count_include_pad": True}


def _maximum(call: Call, pad: Call) -> dict[str, bool] | None:
    dtype = np.dtype(pad.checked_type.dtype) if pad.checked_type.dtype in np.sctypeDict else None
    if dtype is None or dtype.kind not in "fiu":
        return None
    least = np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min
    return {} if _number(pad.args[1]) == float(least) else None


def _number(expr: RelayExpr) -> float | None:
    """Return the number that a constant is; None for what is none, or several."""
    if not isinstance(expr, Constant):
        return None
    value = expr.data.numpy()
    return float(value.reshape(-1)[0]) if value.size == 1 else None


_FOLDS: Sequence[tuple[tuple[str, ...], Callable[[Call, Call], dict[str, bool] | None]]] = (
    (_CONVOLUTIONS, _convolution),
    (("qnn.conv2d",), _quantized_convolution),
    (_AVERAGES, _average),
    (MAX_POOLS, _maximum),
)
