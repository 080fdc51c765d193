"""The classes around sessions, under the name of the module in which onnxruntime has them."""

from ..binding import IOBinding
from ..ort_value import OrtDevice, OrtValue, copy_tensors
from ..session import InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue", "copy_tensors"]
