"""What scripts for Relay's ONNX importer name beside it: tables of onnx, errors, the module itself."""

import numpy as np
from onnx import TensorProto, helper, mapping

import tvm
from tvm import relay
from tvm.relay.frontend import onnx as frontend
from tvm.relay.frontend.onnx import from_onnx

assert frontend.from_onnx is from_onnx is relay.frontend.from_onnx
assert mapping.NP_TYPE_TO_TENSOR_TYPE[np.dtype("float32")] == TensorProto.FLOAT
assert mapping.TENSOR_TYPE_TO_NP_TYPE[TensorProto.INT8] == np.dtype("int8")

values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 3]) for name in "XY"]
for operator, shapes, expected in (
    ("Softplus", {"Z": [1, 2, 3]}, AssertionError),
    ("NoSuchThing", {"X": [1, 2, 3]}, tvm.error.OpNotImplemented),
):
    graph = helper.make_graph([helper.make_node(operator, ["X"], ["Y"])], "graph", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    try:
        relay.frontend.from_onnx(model, shape=shapes)
    except expected as error:
        assert ("Z" if operator == "Softplus" else "NoSuchThing") in str(error)
    else:
        raise AssertionError(operator)
