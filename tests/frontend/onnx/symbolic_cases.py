"""The cases of ONNX's backend suite with sizes that are not known before they run: named ones, and unnamed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

__all__ = ["VARIANTS", "with_named_sizes", "with_unnamed_sizes"]


def with_named_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model each size of whose inputs has a name of its own, so that no two are known to be equal."""
    made = _with_unknown_outputs(proto)
    for number, (name, shape) in enumerate(_input_shapes(made)):
        for axis, dim in enumerate(shape.dim):
            dim.dim_param = f"{name}_{number}_{axis}"
    return made


def with_unnamed_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model that says of its inputs how many axes they have, and nothing of their sizes."""
    made = _with_unknown_outputs(proto)
    for _, shape in _input_shapes(made):
        for dim in shape.dim:
            dim.Clear()
    return made


VARIANTS: dict[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "named": with_named_sizes,
    "unnamed": with_unnamed_sizes,
}


def _with_unknown_outputs(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy that declares no sizes of results: those that it declares are sizes of one run."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.graph.value_info[:]
    for output in made.graph.output:
        for tensor in _tensors(output.type):
            tensor.ClearField("shape")
    return made


def _input_shapes(proto: onnx.ModelProto) -> Iterator[tuple[str, onnx.TensorShapeProto]]:
    initialised = {i.name for i in proto.graph.initializer}
    for given in proto.graph.input:
        if given.name not in initialised:
            for tensor in _tensors(given.type):
                if tensor.HasField("shape"):
                    yield given.name, tensor.shape


def _tensors(declared: onnx.TypeProto) -> Iterator[onnx.TypeProto.Tensor]:
    match declared.WhichOneof("value"):
        case "tensor_type":
            yield declared.tensor_type
        case "sequence_type":
            yield from _tensors(declared.sequence_type.elem_type)
        case "optional_type":
            yield from _tensors(declared.optional_type.elem_type)
