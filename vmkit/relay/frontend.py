"""Relay's frontends, which stand above Relay: each is imported when it is first named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._later import named_later

if TYPE_CHECKING:
    from ..frontend.onnx import from_onnx

__all__ = ["from_onnx"]

__getattr__, __dir__ = named_later(__name__)
