"""Models whose inputs are sequences, and their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.programs import array
from vmkit.relay.frontend import from_onnx

FLOAT = TensorProto.FLOAT


def sequence_input(name: str, shape: Any, dtype: int = FLOAT, optional: bool = False) -> onnx.ValueInfoProto:
    ty = helper.make_sequence_type_proto(helper.make_tensor_type_proto(dtype, shape))
    return helper.make_value_info(name, helper.make_optional_type_proto(ty) if optional else ty)


def with_inputs(proto: onnx.ModelProto, *infos: onnx.ValueInfoProto) -> onnx.ModelProto:
    proto.graph.input.extend(infos)
    return proto


def machine(proto: onnx.ModelProto) -> vmkit.VirtualMachine:
    module, params = from_onnx(proto)
    return vmkit.VirtualMachine(vmkit.compile(module, target="llvm", params=params), vmkit.device("cpu"))


def same(actual: Any, expected: Any) -> None:
    """Assert that two values agree: None, a list, or an array."""
    if isinstance(expected, list):
        assert isinstance(actual, list)
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            same(a, e)
    elif expected is None:
        assert actual is None
    else:
        np.testing.assert_array_equal(np.asarray(actual.numpy()), expected)
        assert tuple(actual.shape) == np.shape(expected)


# A sequence of any length of rows of two, and one of them.
XS = sequence_input("xs", [None, 2])
LIST = [array(k, 2, seed=k) for k in (1, 3, 0)]
