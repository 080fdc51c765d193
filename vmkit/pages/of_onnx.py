"""The graph of an ONNX model, with the types that ONNX's own inference finds."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from ..frontend.onnx.load import read_model
from .graph import Edge, Graph, Kind, Node

__all__ = ["of_onnx"]

_CONTROL = {"If", "Loop", "Scan"}
_SHOWN = 120  # characters of an attribute's text


def of_onnx(source: object) -> Graph:
    """Return the graph of a model: a ModelProto, a path or bytes.

    The graphs inside If, Loop and Scan stand in scopes of their own.

    Raises
    ------
    ModelError
        If it is no ONNX model.
    """
    loaded = read_model(source)
    return _Reader(_inferred(loaded.model)).graph(loaded.name)


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with inferred types; as it is where its operators or its size are more than inference takes."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, EncodeError, ValueError, RuntimeError):
        return model


class _Reader:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []

    def graph(self, title: str) -> Graph:
        """Return the graph of the whole model."""
        made: dict[str, int] = {}
        self.inside(self.model.graph, "", made, {})
        types = _types(self.model.graph)
        for info in self.model.graph.output:
            self.nodes.append(Node(info.name, "output", "output", (types.get(info.name, ""),)))
            if info.name in made:
                self.edges.append(Edge(made[info.name], len(self.nodes) - 1, types.get(info.name, "")))
        return Graph(title, self.nodes, self.edges)

    def inside(
        self, graph: onnx.GraphProto, scope: str, made: dict[str, int], outer: dict[str, onnx.TensorProto]
    ) -> None:
        """Add the nodes of a graph; `made` says which node gives a value, and is filled."""
        constants = {**outer, **{tensor.name: tensor for tensor in graph.initializer}}
        types = _types(graph)
        for info in graph.input:
            if info.name not in constants:
                made[info.name] = len(self.nodes)
                self.nodes.append(Node(info.name, "input", "input", (types[info.name],), {}, scope))
        for node in graph.node:
            self.add(node, scope, made, constants, types)

    def add(
        self,
        node: onnx.NodeProto,
        scope: str,
        made: dict[str, int],
        constants: dict[str, onnx.TensorProto],
        types: dict[str, str],
    ) -> None:
        """Add a node, with the nodes of the graphs in it before it."""
        within = _joined(scope, _scope_of(node.name))
        sources = [(name, made[name]) for name in node.input if name in made]
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                held = dict(made)
                self.inside(graph, _joined(within, f"{node.name or node.op_type} {attribute.name}"), held, constants)
                sources += [(info.name, held[info.name]) for info in graph.output if info.name in held]
        weights = {name: constants[name] for name in node.input if name in constants}
        at = len(self.nodes)
        gives = tuple(types.get(name, "") for name in node.output)
        attributes = {each.name: _attribute_text(each) for each in node.attribute}
        attributes |= {name: _tensor_text(tensor) for name, tensor in weights.items()}
        self.nodes.append(Node(node.name, _operator(node), _kind(node, weights), gives, attributes, within))
        self.edges += [Edge(source, at, types.get(name, "")) for name, source in sources]
        made.update(dict.fromkeys((name for name in node.output if name), at))


def _kind(node: onnx.NodeProto, weights: dict[str, onnx.TensorProto]) -> Kind:
    if node.op_type in _CONTROL:
        return "control"
    return "weighted" if any(len(tensor.dims) > 1 for tensor in weights.values()) else "operator"


def _operator(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type


def _scope_of(name: str) -> str:
    """Return what exporters write before a node's own name: ``/encoder/layer.0/MatMul`` stands in two scopes."""
    return name.strip("/").rpartition("/")[0]


def _joined(*scopes: str) -> str:
    return "/".join(scope for scope in scopes if scope)


def _types(graph: onnx.GraphProto) -> dict[str, str]:
    return {info.name: _type_text(info.type) for info in _infos(graph)}


def _infos(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def _type_text(given: onnx.TypeProto) -> str:
    kind = given.WhichOneof("value")
    match kind:
        case "tensor_type" | "sparse_tensor_type":
            tensor = getattr(given, kind)
            name = _dtype_text(tensor.elem_type)
            if not tensor.HasField("shape"):
                return f"{name}[...]"
            dims = (
                str(dim.dim_value) if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim
            )
            return f"{name}[{', '.join(dims)}]"
        case "sequence_type" | "optional_type":
            return f"{kind.removesuffix('_type')}({_type_text(getattr(given, kind).elem_type)})"
        case "map_type":
            return f"map({_dtype_text(given.map_type.key_type)}, {_type_text(given.map_type.value_type)})"
    return ""


def _dtype_text(code: int) -> str:
    if code not in onnx.TensorProto.DataType.values():
        return f"type {code}"
    return "float32" if code == onnx.TensorProto.FLOAT else onnx.TensorProto.DataType.Name(code).lower()


def _tensor_text(tensor: onnx.TensorProto) -> str:
    return f"constant {_dtype_text(tensor.data_type)}[{', '.join(map(str, tensor.dims))}]"


def _attribute_text(attribute: onnx.AttributeProto) -> str:
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return "a graph, drawn before this node"
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _tensor_text(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
