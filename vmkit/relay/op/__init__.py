"""Relay's operators, by family; importing this package registers all of them."""

from . import (
    broadcast,
    elementwise,
    join,
    rank,
    shape,
    sizes,
    transform,
)
from .registry import REGISTRY, OpEntry, OpPattern, build, entry, operator

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "build", "entry", "operator"]

_FAMILIES = (
    broadcast,
    elementwise,
    join,
    rank,
    shape,
    sizes,
    transform,
)
