"""Relay's ``vision`` operators, by family; ``relay.op.vision.roi_align`` and so on are their builders."""

from ..registry import namespace

__getattr__, __dir__ = namespace("vision.")
