"""Relay's operators, by family; importing this package registers all of them."""

from . import (
    broadcast,
    create,
    elementwise,
    index,
    join,
    rank,
    reduce,
    shape,
    sizes,
    slice,
    transform,
)
from . import broadcast, elementwise, nn, shape
from .registry import REGISTRY, OpEntry, OpPattern, build, entry, operator

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "build", "entry", "operator"]

_FAMILIES = (
    broadcast,
    create,
    elementwise,
    index,
    join,
    rank,
    reduce,
    shape,
    sizes,
    slice,
    transform,
)
_FAMILIES = (broadcast, elementwise, nn, shape)
