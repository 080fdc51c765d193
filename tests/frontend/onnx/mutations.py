"""Small models of every structure that ONNX has, and ways to break them; every mutant follows from a number."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from tests.frontend.onnx.programs import array, graph, model, node

__all__ = ["FEEDS", "SEEDS", "change_attribute", "change_opset", "forget_sizes", "mutant", "mutated"]

X = {"x": (["n", 4], "float32")}
FEEDS = {"x": array(3, 4)}


def _perceptron() -> onnx.ModelProto:
    nodes = [
        node("Gemm", "x w b", "h", transB=1, alpha=0.5),
        node("Relu", "h", "r"),
        node("MatMul", "r v", "s"),
        node("Softmax", "s", "y", axis=-1),
    ]
    return model(nodes, X, "y", {"w": array(5, 4), "b": array(5), "v": array(5, 3)})


def _image() -> onnx.ModelProto:
    nodes = [
        node("Reshape", "x image", "i"),
        node("Conv", "i k", "c", pads=[1, 1, 1, 1], strides=[1, 1], kernel_shape=[3, 3]),
        node("BatchNormalization", "c g z m v", "n", epsilon=1e-3),
        node("MaxPool", "n", "p", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("GlobalAveragePool", "p", "a"),
        node("Flatten", "a", "y"),
    ]
    constants = {"image": np.array([-1, 1, 2, 2]), "k": array(2, 1, 3, 3)}
    constants |= {"g": array(2), "z": array(2), "m": array(2), "v": np.abs(array(2))}
    return model(nodes, X, "y", constants)


def _shapes() -> onnx.ModelProto:
    nodes = [
        node("Shape", "x", "dims"),
        node("Gather", "dims zero", "n", axis=0),
        node("Unsqueeze", "n axes", "n1"),
        node("Concat", "n1 two two", "shape", axis=0),
        node("Reshape", "x shape", "cube"),
        node("Transpose", "cube", "t", perm=[0, 2, 1]),
        node("Slice", "t one far axes", "s"),
        node("Pad", "s pads", "p", mode="constant"),
        node("Cast", "p", "d", to=TensorProto.DOUBLE),
        node("ReduceSum", "d last", "y", keepdims=0),
    ]
    constants = {
        "zero": np.array(0), "axes": np.array([0]), "two": np.array([2]), "one": np.array([0]),
        "far": np.array([2**40]), "pads": np.array([0, 1, 0, 0, 0, 1]), "last": np.array([-1]),
    }  # fmt: skip
    return model(nodes, X, "y", constants)


def _branches() -> onnx.ModelProto:
    then = graph([node("Add", "x w", "a")], {}, "a", {"w": array(4)}, "then")
    other = graph([node("Mul", "x two", "b")], {}, "b", {"two": np.float32(2)}, "else")
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum zero", "c"),
        node("If", "c", "i", then_branch=then, else_branch=other),
        node("Identity", "i", "y"),
    ]
    return model(nodes, X, "y", {"zero": np.float32(0)})


def _recurrent() -> onnx.ModelProto:
    nodes = [
        node("Unsqueeze", "x axes", "s"),
        node("LSTM", "s w r b", "_ h c", hidden_size=3, direction="forward"),
        node("Squeeze", "h axes", "y"),
    ]
    constants = {"axes": np.array([0]), "w": array(1, 12, 4), "r": array(1, 12, 3), "b": array(1, 24)}
    return model(nodes, X, "y", constants)


def _function() -> onnx.ModelProto:
    body = [node("Mul", "a a", "square"), helper.make_node("Add", ["square", "b"], ["c"])]
    made = helper.make_function("own", "SquareAdd", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("SquareAdd", ["x", "w"], ["s"], domain="own"), node("Tanh", "s", "y")]
    proto = model(nodes, X, "y", {"w": array(4)})
    proto.functions.append(made)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    return proto


SEEDS: dict[str, Callable[[], onnx.ModelProto]] = {
    "perceptron": _perceptron,
    "image": _image,
    "shapes": _shapes,
    "branches": _branches,
    "recurrent": _recurrent,
    "function": _function,
}


# -- mutations: each changes a model, or the bytes of one, and may leave what it finds nothing to change in


def _nodes(proto: onnx.ModelProto) -> list[onnx.NodeProto]:
    found, waiting = [], [proto.graph]
    while waiting:
        for each in waiting.pop().node:
            found.append(each)
            waiting += [a.g for a in each.attribute if a.type == AttributeProto.GRAPH]
    return found


def _names(proto: onnx.ModelProto) -> list[str]:
    return [n for each in _nodes(proto) for n in (*each.input, *each.output) if n]


def _rewire(proto: onnx.ModelProto, rng: random.Random) -> None:
    """A node reads another value: cycles, undefined names, other types and shapes."""
    each = rng.choice(_nodes(proto))
    if each.input:
        each.input[rng.randrange(len(each.input))] = rng.choice([*_names(proto), "nothing", ""])


def _rename_output(proto: onnx.ModelProto, rng: random.Random) -> None:
    """A name is defined twice, or what was read is not defined any more."""
    each = rng.choice(_nodes(proto))
    each.output[rng.randrange(len(each.output))] = rng.choice([*_names(proto), "x", "fresh", ""])


def _drop_node(proto: onnx.ModelProto, rng: random.Random) -> None:
    del proto.graph.node[rng.randrange(len(proto.graph.node))]


def _drop_initializer(proto: onnx.ModelProto, rng: random.Random) -> None:
    if proto.graph.initializer:
        del proto.graph.initializer[rng.randrange(len(proto.graph.initializer))]


def _change_arity(proto: onnx.ModelProto, rng: random.Random) -> None:
    each = rng.choice(_nodes(proto))
    if rng.random() < 0.5 and each.input:
        del each.input[-1]
    else:
        each.input.append(rng.choice(_names(proto)))


def _change_operator(proto: onnx.ModelProto, rng: random.Random) -> None:
    each = rng.choice(_nodes(proto))
    each.op_type = rng.choice(["Relu", "Add", "Conv", "Concat", "Where", "Loop", "Gather", "LSTM", "Nonsense", "Cast"])


def change_attribute(proto: onnx.ModelProto, rng: random.Random) -> None:
    """An attribute of another value, type, or name."""
    attributes = [a for each in _nodes(proto) for a in each.attribute]
    if not attributes:
        return
    attribute = rng.choice(attributes)
    match rng.randrange(6):
        case 0:
            attribute.name = rng.choice(["axis", "nonsense", "to", ""])
        case 1:
            attribute.type = rng.choice(list(AttributeProto.AttributeType.values()))
        case 2:
            attribute.i = rng.choice([-1, 0, 1, 2, 7, 2**31, -(2**63), 2**63 - 1])
        case 3:
            attribute.f = rng.choice([-1.0, 0.0, 0.5, 1e30, math.inf, math.nan])
        case 4:
            attribute.s = rng.choice([b"", b"nonsense", b"SAME_UPPER", b"VALID", b"linear", b"constant", b"\xff"])
        case _:
            values = [rng.choice([-3, -1, 0, 1, 2, 5, 2**40]) for _ in range(rng.randrange(6))]
            del attribute.ints[:]
            attribute.ints.extend(values)


def _change_tensor(proto: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor of another shape, type or length."""
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    match rng.randrange(4):
        case 0:
            tensor.dims.append(rng.choice([-1, 0, 1, 2, 2**40]))
        case 1:
            tensor.data_type = rng.choice(list(TensorProto.DataType.values()))
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
        case _:
            values = bytearray(tensor.raw_data)
            if values:
                values[rng.randrange(len(values))] = rng.choice([0, 1, 127, 128, 255])
            tensor.raw_data = bytes(values)


def _change_external(proto: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor in a file that is outside of the folder, too short, or not there."""
    if not proto.graph.initializer:
        return
    tensor = rng.choice(proto.graph.initializer)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    place = rng.choice(["../w.bin", "/etc/passwd", "short.bin", "none.bin", "", ".", "a/../../w.bin"])
    for key, value in (("location", place), ("offset", rng.choice(["0", "-1", "9" * 25, "x"]))):
        tensor.external_data.add(key=key, value=value)


def forget_sizes(proto: onnx.ModelProto, rng: random.Random) -> None:
    """Sizes of an input that have a name, or none."""
    if not proto.graph.input:
        return
    for dim in rng.choice(proto.graph.input).type.tensor_type.shape.dim:
        if rng.random() < 0.5:
            dim.dim_param = rng.choice("nmk?") + rng.choice(["", "1"])


def _change_input(proto: onnx.ModelProto, rng: random.Random) -> None:
    """An input of another type, rank or size."""
    if not proto.graph.input:
        return
    tensor = rng.choice(proto.graph.input).type.tensor_type
    match rng.randrange(4):
        case 0:
            tensor.elem_type = rng.choice(list(TensorProto.DataType.values()))
        case 1:
            tensor.shape.dim.add().dim_value = rng.choice([-1, 0, 1, 3])
        case 2 if tensor.shape.dim:
            del tensor.shape.dim[-1]
        case 3 if tensor.shape.dim:
            rng.choice(tensor.shape.dim).dim_value = rng.choice([-4, 0, 1, 3, 2**40])


def _change_output(proto: onnx.ModelProto, rng: random.Random) -> None:
    proto.graph.output.add().name = rng.choice([*_names(proto), "nothing"])


def change_opset(proto: onnx.ModelProto, rng: random.Random) -> None:
    proto.opset_import[0].version = rng.choice([-1, 0, 1, 5, 7, 9, 11, 13, 18, 21, 24, 10**6])


def _swap_nodes(proto: onnx.ModelProto, rng: random.Random) -> None:
    """A node twice: its outputs are defined twice."""
    proto.graph.node.append(rng.choice(proto.graph.node))


MUTATIONS: list[Callable[[onnx.ModelProto, random.Random], None]] = [
    _rewire, _rename_output, _drop_node, _drop_initializer, _change_arity, _change_operator, change_attribute,
    _change_tensor, _change_external, _change_input, forget_sizes, _change_output, change_opset, _swap_nodes,
]  # fmt: skip


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    end = rng.choice([len(data), rng.randrange(start, len(data))])
    return data[:start] + data[end:]


def mutated(proto: onnx.ModelProto, rng: random.Random) -> bytes:
    """Return the file of a model after one to three mutations of it, or of its bytes; the model is changed."""
    kind = rng.random()
    if kind < 0.3:
        return _flipped(proto.SerializeToString(deterministic=True), rng)
    if kind < 0.4:
        return _cut(proto.SerializeToString(deterministic=True), rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        if proto.graph.node:
            rng.choice(MUTATIONS)(proto, rng)
    return proto.SerializeToString(deterministic=True)


def mutant(number: int) -> bytes:
    """Return the file of the mutant of a number: of one of the models here."""
    rng = random.Random(number)
    return mutated(rng.choice(list(SEEDS.values()))(), rng)
