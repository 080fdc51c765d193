"""Relay's ``nn`` operators, by family."""

from . import activation, convolution, dense, flatten, global_pooling, normalization, pad, pooling

__all__: list[str] = []

_FAMILIES = (activation, convolution, dense, flatten, global_pooling, normalization, pad, pooling)
