"""A convolution between space_to_batch_nd and batch_to_space_nd is a dilated convolution."""

from __future__ import annotations

from collections.abc import Sequence

import tvm_ffi

from ..ir import Call, Constant, RelayExpr, is_call
from ..op.registry import entry
from .known_type import rewrite_typed, type_of
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["FlattenAtrousConv"]


@relay_pass(opt_level=0)
def FlattenAtrousConv() -> ModuleTransform:
    """Return the pass that makes ``space_to_batch_nd``, ``conv2d``, ``batch_to_space_nd`` one dilated ``conv2d``."""
    return per_function(lambda function: rewrite_typed(function, _flattened))


def _flattened(node: RelayExpr) -> RelayExpr:
    if not is_call(node, "nn.batch_to_space_nd") or not is_call(node.args[0], "nn.conv2d", "qnn.conv2d"):
        return node
    conv = node.args[0]
    if not is_call(conv.args[0], "nn.space_to_batch_nd"):
        return node
    split = conv.args[0]
    block = list(split.attrs.block_shape)
    if list(node.attrs.block_shape) != block or len(block) != 2 or not _is_plain(conv, split):
        return node
    pads = [[p - c for p, c in zip(ps, cs, strict=True)] for ps, cs in _edges(split.attrs.paddings, node.attrs.crops)]
    if any(p < 0 for side in pads for p in side):
        return node
    values = {f.name: getattr(conv.attrs, f.name) for f in conv.attrs.declared}
    values["padding"] = [pads[0][0], pads[1][0], pads[0][1], pads[1][1]]
    values["dilation"] = block
    made = Call(conv.op, [split.args[0], *conv.args[1:]], type(conv.attrs)(**values), span=conv.span)
    return made if tvm_ffi.structural_equal(type_of(made), node.checked_type) else node


def _edges(paddings: Sequence[Sequence[int]], crops: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
    return [([int(v) for v in p], [int(v) for v in c]) for p, c in zip(paddings, crops, strict=True)]


def _is_plain(conv: Call, split: Call) -> bool:
    """Say whether a convolution adds no padding, steps or dilation, and its padding is what was split off."""
    attrs = conv.attrs
    if attrs.data_layout != "NHWC" or any(attrs.padding) or {*attrs.strides, *attrs.dilation} != {1}:
        return False
    zero = 0.0
    if conv.op.name == "qnn.conv2d":
        point = conv.args[entry(conv.op).inputs.index("input_zero_point")]
        if not isinstance(point, Constant) or point.data.shape:
            return False
        zero = float(point.data.numpy())
    return float(split.attrs.pad_value) == zero
