"""Constant weights are laid out as kernels read them: output channels in blocks of a few vectors, innermost."""

from __future__ import annotations

from collections.abc import Sequence

from ..relay.ir import Call, Constant, Expr, Op, RelayExpr, dims
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.layout_rules import with_attrs
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..values.halves import half_type
from ..values.host_memory import as_array
from .constants import weight_constant

__all__ = ["MANY_UNITS", "PackWeights"]

MANY_UNITS = 256
"""From how many units on a dense layer's weight is packed whatever their number is: what fills its last block is small.

Vocabularies are such numbers: 50257, 6625, 18710.
"""

# What a packed weight's layout is made of: the output channels first, in blocks of so many, then what is summed up.
_LAYOUTS = {
    ("nn.conv1d", "NWC"): "OWI{}o",
    ("nn.conv2d", "NHWC"): "OHWI{}o",
    ("nn.conv3d", "NDHWC"): "ODHWI{}o",
}
_FEW = 2  # rows whose sums wait for each other
_PART, _LONG = 4, 8  # channels summed up that are a part of a vector, and so many that sums are kept in vectors


@relay_pass(opt_level=1)
def PackWeights(lanes: int = 16, halves: Sequence[str] = ()) -> ModuleTransform:
    """Return the pass that packs the constant weights of convolutions over channels-last data and of dense layers.

    Parameters
    ----------
    lanes : int
        How many float32 a vector of the target has. A block is up to two vectors where it divides the channels of a
        group; otherwise the last one of each group, or of many units, is filled up with zeros, which the kernel
        computes with and leaves.
    halves : sequence of str
        The types of 16 bits that kernels widen as they read them. Weights of dense layers whose numbers all are ones of
        such a type are stored as these.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _packed(node, lanes, halves)))


def _packed(node: RelayExpr, lanes: int, halves: Sequence[str]) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and len(node.args) == 2):
        return node
    data, weight = node.args
    if node.op.name == "nn.dense":
        return _packed_dense(node, lanes, halves)
    if not isinstance(weight, Constant) or not weight.checked_type.dtype.startswith("float"):
        return node
    layout = _LAYOUTS.get((node.op.name, getattr(node.attrs, "data_layout", "")))
    old = getattr(node.attrs, "kernel_layout", "")
    if layout is None or not old.isalpha():
        return node
    channels, inner = (int(weight.checked_type.shape[old.index(letter)]) for letter in "OI")
    groups = node.attrs.groups
    if groups > 1 and inner == 1:
        return node  # a depthwise convolution: nothing is summed up over channels
    of_group = channels // groups
    block = _block(of_group, lanes)
    filled = _filled_block(of_group, lanes)
    if filled is not None and (block is None or block < filled):
        return _filled(node, weight, layout.format(filled))
    if block is None and (inner < _LONG or inner % _PART):
        return node
    # Where there are too few output channels for a vector, one goes along the channels that are summed up.
    new = layout.removesuffix("{}o") if block is None else layout.format(block)
    packed = build("layout_transform", weight, old, new)
    return Call(node.op, [data, packed], with_attrs(node, kernel_layout=new), span=node.span)


def _filled(node: Call, weight: Constant, layout: str) -> Call:
    """Return a convolution over blocks of which the last one of each group is filled up with zeros."""
    plain = "".join(letter for letter in layout if letter.isupper())
    ordered = build("layout_transform", weight, node.attrs.kernel_layout, plain)
    channels, *others = (int(d) for d in type_of(ordered).shape)
    groups = node.attrs.groups
    apart = build("reshape", ordered, newshape=(groups, channels // groups, *others))
    blocks = build("layout_transform", apart, f"G{plain}", f"G{layout}")
    _, count, *rest = (int(d) for d in type_of(blocks).shape)
    packed = build("reshape", blocks, newshape=(groups * count, *rest))
    attrs = with_attrs(node, kernel_layout=layout, channels=channels)
    return Call(node.op, [node.args[0], packed], attrs, span=node.span)


def _packed_dense(node: Call, lanes: int, halves: Sequence[str]) -> Expr:
    data, whole = node.args
    weight, dtype = weight_constant(whole), whole.checked_type.dtype
    if weight is None or not dtype.startswith("float"):
        return node
    units, out_dtype = int(weight.checked_type.shape[0]), node.attrs.out_dtype
    if dtype == "float64":
        lanes = max(lanes // 2, 4)
    block = _block(units, lanes)
    if block is None and units < MANY_UNITS:
        return node
    if block is None:
        block = lanes
    elif block < lanes and block < units and not _stays_narrow(data, units, block, lanes):
        block = lanes  # the last one filled up: several blocks that are narrower would leave most of each vector unused
    layout = f"NC{block}n"
    if dtype == "float32":
        kept = weight.checked_type.dtype
        numbers = as_array(weight.data) if kept == "float32" else None
        half = kept if kept in halves else None if numbers is None else half_type(numbers, halves)
        if half is not None:
            whole = weight if half == kept else build("cast", weight, dtype=half)
            out_dtype = out_dtype or "float32"
    packed = build("layout_transform", _with_even_blocks(whole, units, block), "NC", layout)
    return build("nn.contrib_dense_pack", data, packed, weight_layout=layout, units=units, out_dtype=out_dtype)


def _with_even_blocks(weight: Expr, units: int, block: int) -> Expr:
    """Return a weight whose last block is filled up, and followed by one of zeros where single ones would go by."""
    count = -(-units // block)
    if units % block == 0 or _go_together(count):
        return weight
    return build("nn.pad", weight, pad_width=((0, (count + 1) * block - units), (0, 0)))


def _stays_narrow(data: Expr, units: int, block: int, lanes: int) -> bool:
    """Say whether blocks of a part of a vector, several in registers at once, are better than whole ones.

    They are for a row or two, whose sums would wait for each other. More rows are twice as fast in whole vectors.
    """
    if _go_together(-(-units // lanes)) or not _go_together(units // block):
        return False
    rows = dims.product(type_of(data).shape[:-1])
    return isinstance(rows, int) and rows <= _FEW


def _go_together(count: int) -> bool:
    """Say whether so many blocks divide into some that are in registers at once; single ones are slow for few rows."""
    return count == 1 or any(count % some == 0 for some in (2, 3, 5))


def _block(channels: int, lanes: int) -> int | None:
    """Return the largest block of up to two vectors that divides the channels, or None where a part of one is left."""
    return next((b for b in (lanes * 2, lanes, lanes // 2, lanes // 4) if b >= 4 and channels % b == 0), None)


def _filled_block(channels: int, lanes: int) -> int | None:
    """Return the block of at most a vector of which there are several, the last of them filled up; or the only one."""
    if lanes // 2 < channels < lanes:
        return lanes
    return next((b for b in (lanes, lanes // 2, lanes // 4) if b >= 4 and channels > b and channels % b), None)
