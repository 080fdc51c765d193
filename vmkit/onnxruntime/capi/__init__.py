"""The inner modules of onnxruntime from which scripts import: its errors, its enumerations, its sessions."""

from . import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"]
