"""Relay to Relax."""

from .module import Lowered, lower_module

__all__ = ["Lowered", "lower_module"]
