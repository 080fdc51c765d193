"""Attributes of the pools, whose defaults differ with the number of spatial axes."""

from __future__ import annotations

from ..attrs import Attrs, Bool, Ints, Str, attrs_node

__all__ = [
    "AvgPool1DAttrs",
    "AvgPool2DAttrs",
    "AvgPool3DAttrs",
    "MaxPool1DAttrs",
    "MaxPool2DAttrs",
    "MaxPool3DAttrs",
]


@attrs_node("relay.attrs.MaxPool1DAttrs")
class MaxPool1DAttrs(Attrs):
    """Attributes of nn.max_pool1d."""

    pool_size: Ints
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    layout: Str = "NCW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.MaxPool2DAttrs")
class MaxPool2DAttrs(Attrs):
    """Attributes of nn.max_pool2d."""

    pool_size: Ints
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: Str = "NCHW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.MaxPool3DAttrs")
class MaxPool3DAttrs(Attrs):
    """Attributes of nn.max_pool3d."""

    pool_size: Ints
    strides: Ints = (1, 1, 1)
    dilation: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    layout: Str = "NCDHW"
    out_layout: Str = ""
    ceil_mode: Bool = False


@attrs_node("relay.attrs.AvgPool1DAttrs")
class AvgPool1DAttrs(Attrs):
    """Attributes of nn.avg_pool1d."""

    pool_size: Ints
    strides: Ints = (1,)
    dilation: Ints = (1,)
    padding: Ints = (0,)
    layout: Str = "NCW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False


@attrs_node("relay.attrs.AvgPool2DAttrs")
class AvgPool2DAttrs(Attrs):
    """Attributes of nn.avg_pool2d."""

    pool_size: Ints
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0)
    layout: Str = "NCHW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False


@attrs_node("relay.attrs.AvgPool3DAttrs")
class AvgPool3DAttrs(Attrs):
    """Attributes of nn.avg_pool3d."""

    pool_size: Ints
    strides: Ints = (1, 1, 1)
    dilation: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    layout: Str = "NCDHW"
    out_layout: Str = ""
    ceil_mode: Bool = False
    count_include_pad: Bool = False
