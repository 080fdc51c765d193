"""A quantised network as C99 for a microcontroller: written, described, built for this machine and compared."""

import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import vmkit

rng = np.random.default_rng(0)
weights = {
    "weight": rng.integers(-127, 128, (4, 1, 3, 3)).astype("int8"),
    "w_scale": np.float32(0.011),
    "x_scale": np.float32(0.02),
    "y_scale": np.float32(0.05),
    "zero": np.int8(0),
}
nodes = [
    helper.make_node("DequantizeLinear", ["x", "x_scale", "zero"], ["image"]),
    helper.make_node("DequantizeLinear", ["weight", "w_scale", "zero"], ["kernel"]),
    helper.make_node("Conv", ["image", "kernel"], ["sums"], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["sums"], ["positive"]),
    helper.make_node("QuantizeLinear", ["positive", "y_scale", "zero"], ["y"]),
]
graph = helper.make_graph(
    nodes,
    "edges",
    [helper.make_tensor_value_info("x", TensorProto.INT8, [1, 1, 16, 16])],
    [helper.make_tensor_value_info("y", TensorProto.INT8, None)],
    [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

with tempfile.TemporaryDirectory() as folder:
    archive = Path(folder) / "edges.tar"
    description = vmkit.mlf.export(model, archive, model_name="edges")
    memory = description["modules"]["edges"]["memory"]["functions"]["main"][0]
    print(f"RAM between inputs and outputs: {memory['workspace_size_bytes']} bytes")
    print(f"constants in flash: {memory['constants_size_bytes']} bytes")

    library = vmkit.mlf.load(archive)
    header = library.files["codegen/host/include/tvmgen_edges.h"].decode()
    print(next(line for line in header.splitlines() if "_run(" in line))
    image = rng.integers(-128, 128, (1, 1, 16, 16)).astype("int8")
    (edges,) = library.build().run(image)

(expected,) = [vmkit.VirtualMachine(vmkit.compile(model), "cpu").run(image).numpy()]
print("equal to the virtual machine's:", bool(np.abs(edges.astype(int) - expected).max() <= 1))
