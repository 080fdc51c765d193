"""Relay's operators, by family; importing this package registers all of them."""

from . import (
    broadcast,
    elementwise,
    index,
    join,
    rank,
    shape,
    slice,
    transform,
)
from .registry import REGISTRY, OpEntry, OpPattern, build, entry, operator

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "build", "entry", "operator"]

_FAMILIES = (
    broadcast,
    elementwise,
    index,
    join,
    rank,
    shape,
    slice,
    transform,
)
