"""Builders of the ``random`` operators: ``relay.random.uniform(key, shape)`` and so on, and keys to begin with."""

from .op.random.threefry import threefry_key
from .op.registry import namespace

__all__ = ["threefry_key"]

__getattr__, _operator_names = namespace("random.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
