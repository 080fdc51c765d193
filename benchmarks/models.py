"""Models from files: of vmkit and its tests, of the onnx package, and of a folder beside the project if it is there.

The light models of the onnx package are real architectures whose weights were replaced by one number each. With such
weights every result is the same, and a check of it proves nothing; so they get random ones here, from a fixed seed.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["LIGHT", "batched_inputs", "load", "with_batch"]

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
_PACKED = Path(__file__).resolve().parents[1] / "tests" / "data"
_SHARED = Path(__file__).resolve().parents[2] / "shared" / "models"


def load(name: str) -> onnx.ModelProto | None:
    """Return a model, or None if its file is not on this machine."""
    if name == "mnist":
        return onnx.load_from_string((resources.files("vmkit") / "data" / "mnist.onnx").read_bytes())
    if name in LIGHT:
        folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
        return _with_random_weights(onnx.load(folder / f"light_{name}.onnx"))
    packed = _PACKED / f"{name}.onnx.xz"
    if packed.is_file():
        return onnx.load_from_string(lzma.decompress(packed.read_bytes()))
    path = _SHARED / f"{name}.onnx"
    return onnx.load(path) if path.is_file() else None


def with_batch(model: onnx.ModelProto, batch: int | str) -> tuple[onnx.ModelProto, dict[str, list[int | str]]]:
    """Return a model whose first dimension is `batch` everywhere it is declared, and the shapes of its inputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.value_info[:]
    shapes: dict[str, list[int | str]] = {}
    for value in _free_inputs(changed):
        first = value.type.tensor_type.shape.dim[0]
        first.Clear()
        if isinstance(batch, int):
            first.dim_value = batch
        else:
            first.dim_param = batch
        shapes[value.name] = [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
    # What the file says of its results holds for its own batch; the rest of a shape follows from the inputs.
    for value in changed.graph.output:
        value.type.tensor_type.ClearField("shape")
    _free_the_batch_of_reshapes(changed.graph)
    return changed, shapes


def batched_inputs(model: onnx.ModelProto, batch: int) -> dict[str, np.ndarray]:
    """Return random images for every input of a model, by name."""
    random = np.random.default_rng(0)
    return {
        value.name: random.random(
            (batch, *(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])), dtype="float32"
        )
        for value in _free_inputs(model)
    }


def _free_inputs(model: onnx.ModelProto) -> Iterator[onnx.ValueInfoProto]:
    initialised = {tensor.name for tensor in model.graph.initializer}
    return (value for value in model.graph.input if value.name not in initialised)


def _free_the_batch_of_reshapes(graph: onnx.GraphProto) -> None:
    """Have reshapes to a batch of 1 keep the batch that comes, as vmkit's importer does by itself."""
    targets = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [(node.output[0], node.attribute[0].t) for node in graph.node if node.op_type == "Constant"]
    for name, tensor in tensors:
        if name in targets:
            shape = numpy_helper.to_array(tensor).copy()
            if len(shape) > 1 and shape[0] == 1:
                shape[0] = 0
                tensor.CopyFrom(numpy_helper.from_array(shape, tensor.name))


def _with_random_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    shapes = {n.output[0]: constants[n.input[0]] for n in graph.node if n.op_type == "ConstantOfShape"}
    shapes |= {name: np.array(array.shape) for name, array in constants.items() if array.dtype == np.float32}
    # A scale and a variance of a normalisation stay near 1, so that values neither vanish nor grow from layer to layer.
    near_one = {n.input[i] for n in graph.node if n.op_type == "BatchNormalization" for i in (1, 4)}
    # With normalisation, residual sums would double the spread of values block by block.
    gain = 1 if near_one else 2
    random = np.random.default_rng(0)
    weights = []
    for name, shape in shapes.items():
        if name in near_one:
            values = random.uniform(0.8, 1.2, shape)
        else:
            spread = math.sqrt(gain / math.prod(shape[1:])) if len(shape) > 1 else 0.1
            values = spread * random.standard_normal(shape)
        weights.append(numpy_helper.from_array(values.astype("float32"), name))
    kept = [tensor for tensor in graph.initializer if tensor.name not in shapes]
    nodes = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend([*kept, *weights])
    graph.node.extend(nodes)
    return model
