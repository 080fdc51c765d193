"""Relay's operators, by family; importing this package registers all of them."""

from . import (
    broadcast,
    create,
    elementwise,
    expand,
    index,
    join,
    rank,
    reduce,
    shape,
    slice,
    sort,
    transform,
)
from .registry import REGISTRY, OpEntry, OpPattern, build, entry, operator

__all__ = ["REGISTRY", "OpEntry", "OpPattern", "build", "entry", "operator"]

_FAMILIES = (
    broadcast,
    create,
    elementwise,
    expand,
    index,
    join,
    rank,
    reduce,
    shape,
    slice,
    sort,
    transform,
)
