"""Where onnxruntime keeps its errors."""

from . import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
