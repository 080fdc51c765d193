"""Relay to Relax."""

from .external import External
from .module import Lowered, lower_module

__all__ = ["External", "Lowered", "lower_module"]
