"""Builders of the ``image`` operators: ``relay.image.resize2d(data, size)`` and so on."""

from .op.registry import namespace

__getattr__, __dir__ = namespace("image.")
