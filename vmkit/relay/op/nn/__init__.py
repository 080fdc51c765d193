"""Relay's ``nn`` operators, by family; their builders are found here by name, as in ``vmkit.relay.nn``."""

from ..registry import namespace

__getattr__, __dir__ = namespace("nn.")
