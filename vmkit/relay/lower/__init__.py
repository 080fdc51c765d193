"""Relay to Relax."""

from .checks import explain_failure
from .module import Lowered, lower_module

__all__ = ["Lowered", "explain_failure", "lower_module"]
