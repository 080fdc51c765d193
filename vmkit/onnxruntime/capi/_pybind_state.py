"""Another name of :mod:`vmkit.onnxruntime.capi.onnxruntime_pybind11_state`, as onnxruntime has it."""

from .onnxruntime_pybind11_state import *  # noqa: F403
from .onnxruntime_pybind11_state import __all__ as __all__
