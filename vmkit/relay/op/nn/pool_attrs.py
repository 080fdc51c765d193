"""Attributes of the pools."""

from __future__ import annotations

from ..attrs import Attrs, Bool, Dims, Ints, Str, attrs_node, attrs_row, field
from .window_fields import each_axis, each_side, in_order

__all__ = [
    "AdaptivePoolAttrs",
    "AvgPoolAttrs",
    "GlobalPoolAttrs",
    "MaxPoolAttrs",
    "MaxPoolWithIndicesAttrs",
    "PoolAttrs",
    "SizedPoolAttrs",
]

_SAME = "Order of the result's axes, which must be that of the data's."


@attrs_row
class PoolAttrs(Attrs):
    """What the pools with windows have in common."""

    pool_size: Ints = each_axis(script=1, doc="Size of the window.")
    strides: Ints = each_axis(1, "Steps of the window.")
    dilation: Ints = each_axis(1, "Steps between the elements of the window.")
    padding: Ints = each_side(0, "Elements added on each side: before all axes, then behind.")
    layout: Str = in_order("NC", "Order of the data's axes.")
    out_layout: Str = field("", doc=_SAME)
    ceil_mode: Bool = field(False, doc="Whether a last window may reach past the end.")


@attrs_node("relay.attrs.MaxPool{rank}DAttrs", ranks=(1, 2, 3))
class MaxPoolAttrs(PoolAttrs):
    """Attributes of nn.max_pool{rank}d."""


@attrs_node("relay.attrs.AvgPool{rank}DAttrs", ranks=(1, 2, 3))
class AvgPoolAttrs(PoolAttrs):
    """Attributes of nn.avg_pool{rank}d."""

    count_include_pad: Bool = field(False, doc="Whether elements of the padding count.")


@attrs_node("relay.attrs.ContribMaxPoolWithIndicesAttrs")
class MaxPoolWithIndicesAttrs(Attrs):
    """Attributes of nn.contrib_max_pool_with_indices; padding holds all beginnings, then all ends."""

    pool_size: Ints
    strides: Ints
    dilation: Ints
    padding: Ints
    layout: Str
    ceil_mode: Bool = False
    column_major: Bool = False


@attrs_row
class SizedPoolAttrs(Attrs):
    """What the pools have in common whose windows follow from the size of the result."""

    layout: Str = in_order("NC", "Order of the data's axes.")
    out_layout: Str = field("", doc=_SAME)


@attrs_node("relay.attrs.GlobalPool{rank}DAttrs", ranks=(2,))
class GlobalPoolAttrs(SizedPoolAttrs):
    """Attributes of the global pools."""


@attrs_node("relay.attrs.AdaptivePool{rank}DAttrs", ranks=(1, 2, 3))
class AdaptivePoolAttrs(SizedPoolAttrs):
    """Attributes of the adaptive pools over {rank} spatial axes."""

    output_size: Dims = field(
        (),
        script=None,
        spread=lambda size, rank: () if size is None else size,
        doc="Size of the result; that of the data where it is empty.",
        first=True,
    )
