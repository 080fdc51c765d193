"""ONNX to Relay: one function for every operator, by family.

A converter is registered with :func:`vmkit.frontend.onnx.registry.converter`; adding an operator is adding one.
"""

from .convert import from_onnx

__all__ = ["from_onnx"]
