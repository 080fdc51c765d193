"""What a session tells of its model: onnxruntime's NodeArg and ModelMetadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

import onnx

from .._dataclasses import dataclass
from ..values.kinds import OptionalSpec, Spec, TensorSpec
from ..values.signature import Signature
from .element_kinds import type_of_proto, type_of_spec

__all__ = ["ModelMetadata", "NodeArg", "args_of_outputs", "args_of_signature", "args_of_values", "metadata_of"]


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a model.

    Parameters
    ----------
    name : str
    type : str
        Such as ``tensor(float)`` or ``seq(tensor(int64))``.
    shape : list
        For each dimension its size, its name, or None where neither is known. Empty for a scalar, for what is no
        tensor, and where the number of dimensions is not known.
    """

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True)
class ModelMetadata:
    """What a model's file says of the model."""

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


def metadata_of(model: onnx.ModelProto) -> ModelMetadata:
    """Return what an ONNX model says of itself."""
    return ModelMetadata(
        {entry.key: entry.value for entry in model.metadata_props},
        model.doc_string,
        model.domain,
        model.graph.doc_string,
        model.graph.name,
        model.producer_name,
        model.model_version,
    )


def args_of_values(values: Iterable[onnx.ValueInfoProto]) -> list[NodeArg]:
    """Return values of a graph as the file declares them."""
    return [NodeArg(value.name, type_of_proto(value.type), _declared_shape(value.type) or []) for value in values]


def args_of_outputs(graph: onnx.GraphProto, signature: Signature) -> list[NodeArg]:
    """Return the outputs of a graph: what the file does not declare is what the compiler found."""
    names = {dim for value in graph.input for dim in _declared_shape(value.type) or [] if isinstance(dim, str)}
    return [_output(value, spec, names) for value, spec in zip(graph.output, signature.outputs, strict=True)]


def _output(value: onnx.ValueInfoProto, spec: Spec, names: set[str]) -> NodeArg:
    declared, found = _declared_shape(value.type), _spec_shape(spec)
    found = [dim if isinstance(dim, int) or dim in names else None for dim in found]
    if declared is None:
        declared = found
    elif len(declared) == len(found):
        declared = [_closer(own, other) for own, other in zip(declared, found, strict=True)]
    return NodeArg(value.name, type_of_proto(value.type) or type_of_spec(spec), declared)


def _closer(declared: int | str | None, found: int | str | None) -> int | str | None:
    """Return what says more of a dimension: a size, the name in the file, the name that the compiler found."""
    return found if isinstance(found, int) or declared is None else declared


def args_of_signature(specs: Sequence[Spec], inputs: Sequence[Spec]) -> list[NodeArg]:
    """Return inputs or outputs of an executable of which no more is known than its signature.

    What is called after an input and an axis, as in ``x_dim0``, had no name in its file.
    """
    shapes = {spec.name: len(spec.shape) for spec in inputs if isinstance(spec, TensorSpec)}
    unnamed = {f"{name}_dim{axis}" for name, rank in shapes.items() for axis in range(rank)}
    return [
        NodeArg(
            spec.name or f"output_{position}",
            type_of_spec(spec),
            [
                None if isinstance(dim, str) and (dim in unnamed or not _is_name(dim)) else dim
                for dim in _spec_shape(spec)
            ],
        )
        for position, spec in enumerate(specs)
    ]


def _spec_shape(spec: Spec) -> list[int | str | None]:
    tensor = spec.element if isinstance(spec, OptionalSpec) else spec
    return list(tensor.shape) if isinstance(tensor, TensorSpec) else []


def _is_name(dim: str) -> bool:
    """Say whether a dimension is a name, and not a sum or product of some."""
    return dim != "?" and not any(sign in dim for sign in " *+-/()")


def _declared_shape(proto: onnx.TypeProto) -> list[int | str | None] | None:
    """Return the dimensions that a file declares; None where it does not say how many there are."""
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        return _declared_shape(proto.optional_type.elem_type)
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return []
    tensor = getattr(proto, kind)
    if not tensor.HasField("shape"):
        return None
    return [_dim(dim) for dim in tensor.shape.dim]


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param or None
