"""Constant weights are laid out as kernels read them: output channels in blocks of a few vectors, innermost."""

from __future__ import annotations

from typing import Any

from ..ir import Call, Constant, Op
from ..op.registry import build
from .known_type import rewrite_typed, type_of
from .layout_rules import with_attrs
from .registry import ModuleTransform, per_function, relay_pass

__all__ = ["PackWeights"]

# What a packed weight's layout is made of: the output channels first, in blocks of so many, then what is summed up.
_LAYOUTS = {
    ("nn.conv1d", "NWC"): "OWI{}o",
    ("nn.conv2d", "NHWC"): "OHWI{}o",
    ("nn.conv3d", "NDHWC"): "ODHWI{}o",
}


@relay_pass(opt_level=2)
def PackWeights(lanes: int = 16) -> ModuleTransform:
    """Return the pass that packs the constant weights of convolutions over channels-last data and of dense layers.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has. A block of output channels is as many whole vectors, up to four,
        as divide them.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _packed(node, lanes)))


def _packed(node: Any, lanes: int) -> Any:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    if node.op.name == "nn.dense":
        return _packed_dense(node, lanes)
    layout = _LAYOUTS.get((node.op.name, getattr(node.attrs, "data_layout", "")))
    if layout is None or node.attrs.groups != 1 or not isinstance(node.args[1], Constant):
        return node
    data, weight = node.args
    old = node.attrs.kernel_layout
    if not old.isalpha():
        return node
    block = _block(int(weight.checked_type.shape[old.index("O")]), lanes)
    if block is None:
        return node
    new = layout.format(block)
    packed = build("layout_transform", weight, old, new)
    type_of(packed)
    made = Call(node.op, [data, packed], with_attrs(node, kernel_layout=new), span=node.span)
    type_of(made)
    return made


def _packed_dense(node: Call, lanes: int) -> Any:
    data, weight = node.args
    if not isinstance(weight, Constant) or len(type_of(data).shape) != 2:
        return node
    block = _block(int(weight.checked_type.shape[0]), lanes)
    if block is None:
        return node
    layout = f"NC{block}n"
    packed = build("layout_transform", weight, "NC", layout)
    type_of(packed)
    units, out_dtype = node.attrs.units, node.attrs.out_dtype
    made = build("nn.contrib_dense_pack", data, packed, weight_layout=layout, units=units, out_dtype=out_dtype)
    type_of(made)
    return made


def _block(channels: int, lanes: int) -> int | None:
    """Return the largest block of whole vectors that divides the channels; None where there is none worth packing."""
    candidates = [lanes * 2, lanes, lanes // 2, lanes // 4]
    return next((b for b in candidates if b >= 4 and channels % b == 0), None)
