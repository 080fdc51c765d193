"""``onnx.mapping``, which today's onnx has as functions of ``onnx.helper``: tables of element types."""

from __future__ import annotations

import onnx
from onnx import helper

__all__ = [
    "NP_TYPE_TO_TENSOR_TYPE",
    "TENSOR_TYPE_TO_NP_TYPE",
    "TENSOR_TYPE_TO_STORAGE_FIELD",
    "TENSOR_TYPE_TO_STORAGE_TENSOR_TYPE",
]

# By the numbers of ONNX's element types; those that numpy has no type of are left out of the way back.
_TYPES = [each for each in helper.get_all_tensor_dtypes() if each != onnx.TensorProto.UNDEFINED]
_IN_NUMPY = [each for each in _TYPES if helper.tensor_dtype_to_np_dtype(each).isbuiltin == 1]

TENSOR_TYPE_TO_NP_TYPE = {each: helper.tensor_dtype_to_np_dtype(each) for each in _TYPES}
NP_TYPE_TO_TENSOR_TYPE = {TENSOR_TYPE_TO_NP_TYPE[each]: each for each in _IN_NUMPY}
TENSOR_TYPE_TO_STORAGE_TENSOR_TYPE = {each: helper.tensor_dtype_to_storage_tensor_dtype(each) for each in _TYPES}
TENSOR_TYPE_TO_STORAGE_FIELD = {each: helper.tensor_dtype_to_field(each) for each in _TYPES}
