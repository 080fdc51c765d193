"""Relay's ``nn`` operators, by family."""

from . import (
    activation,
    convolution,
    dense,
    flatten,
    global_pooling,
    loss,
    normalization,
    pad,
    pooling,
    rearrange,
    transposed,
)

__all__: list[str] = []

_FAMILIES = (
    activation,
    convolution,
    dense,
    flatten,
    global_pooling,
    loss,
    normalization,
    pad,
    pooling,
    rearrange,
    transposed,
)
