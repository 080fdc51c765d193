"""Quantised programs: builders of the ``qnn`` operators, and their passes.

The builders are reached as ``relay.qnn.op.conv2d`` and as ``relay.qnn.conv2d``.
"""

from ..op.registry import namespace
from . import op, transform

__all__ = ["op", "transform"]

__getattr__, _operator_names = namespace("qnn.")


def __dir__() -> list[str]:
    return sorted([*__all__, *_operator_names()])
