"""Builders of the ``vision`` operators: ``relay.vision.roi_align(data, rois, ...)`` and so on."""

from .op.registry import namespace

__getattr__, __dir__ = namespace("vision.")
