"""Builders of the ``nn`` operators: ``relay.nn.dense(data, weight)`` and so on."""

from .op.registry import namespace

__getattr__, __dir__ = namespace("nn.")
