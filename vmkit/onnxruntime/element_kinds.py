"""Data types as onnxruntime writes them: ``tensor(float)``, ``seq(map(string,tensor(float)))``."""

from __future__ import annotations

import numpy as np
import onnx

from ..errors import ModelError
from ..frontend.onnx.dtype import dtype_name
from ..frontend.onnx.dtype import element_type as element_type_of
from ..values.kinds import MapSpec, OptionalSpec, SequenceSpec, Spec, TensorSpec, UnrankedSpec
from .errors import ArgumentTypeError

__all__ = ["dtype_of", "element_type_of", "type_of_proto", "type_of_spec", "type_of_tensor"]

# Where onnxruntime's name of a data type is another than vmkit's without its underscore.
_SPELLED = {
    "float32": "float",
    "float64": "double",
    "float4_e2m1fn": "float4e2m1",
    "float6_e2m3fn": "float6e2m3",
    "float6_e3m2fn": "float6e3m2",
    "float8_e8m0fnu": "float8e8m0",
}


def _spelled(dtype: str) -> str:
    return _SPELLED.get(dtype, dtype.replace("_", ""))


def dtype_of(element_type: object) -> str:
    """Return the data type that callers name as ONNX's number, or in a form that numpy takes."""
    try:
        if isinstance(element_type, int) and not isinstance(element_type, bool):
            return dtype_name(element_type, "the value")
        dtype = np.dtype(element_type)  # type: ignore[call-overload]
        name = "string" if dtype.kind in "OSUT" else str(dtype)
        element_type_of(name)
    except (TypeError, ModelError) as error:
        raise ArgumentTypeError(f"{element_type!r} is no element type, of numpy or of ONNX: {error}") from error
    return name


def type_of_tensor(dtype: str) -> str:
    """Return the type of a tensor of a data type of vmkit."""
    return f"tensor({_spelled(dtype)})"


def _type_of_elements(element_type: int) -> str:
    return type_of_tensor(dtype_name(element_type, "a tensor"))


def type_of_proto(proto: onnx.TypeProto) -> str:
    """Return the type that a file declares; empty where it declares none."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            return _type_of_elements(proto.tensor_type.elem_type) if proto.tensor_type.elem_type else ""
        case "sparse_tensor_type":
            return f"sparse_{_type_of_elements(proto.sparse_tensor_type.elem_type)}"
        case "sequence_type":
            return f"seq({type_of_proto(proto.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_of_proto(proto.optional_type.elem_type)})"
        case "map_type":
            key = _spelled(dtype_name(proto.map_type.key_type, "a map's key"))
            return f"map({key},{type_of_proto(proto.map_type.value_type)})"
    return ""


def type_of_spec(spec: Spec) -> str:
    """Return the type of a value of a program."""
    match spec:
        case TensorSpec() | UnrankedSpec():
            return type_of_tensor(spec.dtype)
        case SequenceSpec():
            return f"seq({type_of_spec(spec.element)})"
        case OptionalSpec():
            return f"optional({type_of_spec(spec.element)})"
        case MapSpec():
            one = f"map({_spelled(spec.key)},{type_of_tensor(spec.value)})"
            return f"seq({one})" if spec.is_list else one
    return str(spec)
