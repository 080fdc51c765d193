"""Functions: operators that are defined by nodes, in the model itself or in ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

from ..._dataclasses import dataclass
from ...errors import ModelError, UnsupportedOperatorError
from ...relay.ir import Expr, TensorType
from .dtype import element_type
from .registry import default_domain
from .schema import schema_of
from .typing import typed

__all__ = ["Body", "Functions", "imported_versions", "instance", "type_proto"]

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Body:
    """A function, and the attributes that it has where a call gives none.

    Attributes
    ----------
    key : tuple of str
        Domain, name and overload.
    function : FunctionProto
        The nodes, and the names of inputs and outputs.
    defaults : tuple of AttributeProto
        Attributes by default.
    """

    key: Key
    function: FunctionProto
    defaults: tuple[AttributeProto, ...]

    @property
    def name(self) -> str:
        """What to call the function in messages."""
        domain, name, overload = self.key
        return f"{domain or 'ai.onnx'}.{name}{f':{overload}' if overload else ''}"


class Functions:
    """The functions that the nodes of a model may call."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._local: dict[Key, Body] = {}
        for function in model.functions:
            key = (default_domain(function.domain), function.name, function.overload)
            body = Body(key, function, tuple(function.attribute_proto))
            if key in self._local:
                raise ModelError(f"the function {body.name} is defined more than once")
            self._local[key] = body

    def local(self, node: NodeProto) -> Body | None:
        """Return the function of the model that a node calls; one of the model goes before an operator of its name."""
        return self._local.get((default_domain(node.domain), node.op_type, node.overload))

    def plain(self, node: NodeProto, version: int) -> Body | None:
        """Return the body that ONNX gives an operator whatever its inputs are, or None."""
        schema = schema_of(default_domain(node.domain), node.op_type, version)
        if schema is None or not schema.has_function:
            return None
        data = schema.get_function_with_opset_version(_newest(schema.function_opset_versions, version))
        return _schema_body(schema, data)

    def depends_on_types(self, node: NodeProto, version: int) -> bool:
        """Say whether ONNX builds the body of an operator for the types of its inputs."""
        schema = schema_of(default_domain(node.domain), node.op_type, version)
        return schema is not None and schema.has_context_dependent_function

    def of_types(self, node: NodeProto, version: int, types: Callable[[], Iterable[TypeProto]]) -> Body | None:
        """Return the body that ONNX gives an operator, for inputs of some types."""
        plain = self.plain(node, version)
        if plain is not None or not self.depends_on_types(node, version):
            return plain
        schema = schema_of(default_domain(node.domain), node.op_type, version)
        data = schema.get_context_dependent_function_with_opset_version(
            _newest(schema.context_dependent_function_opset_versions, version),
            node.SerializeToString(),
            [t.SerializeToString() for t in types()],
        )
        return _schema_body(schema, data)


def _newest(versions: Iterable[int], version: int) -> int:
    """Return the newest of the opsets for which there is a body that an opset can use."""
    known = sorted(versions)
    return max((v for v in known if v <= version), default=known[0])


def _schema_body(schema: Any, data: bytes) -> Body | None:
    if not data:
        return None  # these types, or these attributes, have no body
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.type]
    key = (default_domain(schema.domain), schema.name, "")
    return Body(key, FunctionProto.FromString(data), tuple(defaults))


def imported_versions(function: FunctionProto) -> dict[str, int]:
    """Return the opset versions of the domains that a function imports."""
    return {default_domain(o.domain): int(o.version) for o in function.opset_import}


def instance(body: Body, node: NodeProto) -> GraphProto:
    """Return the graph of a call: the function's nodes with the call's attributes, without inputs that are left out.

    Its inputs and outputs have the function's names; the outputs are those that the call has.

    Raises
    ------
    ModelError
        When the call has more inputs or outputs than the function, or attributes that the function has not.
    """
    function = body.function
    for what, have, most in (
        ("inputs", len(node.input), len(function.input)),
        ("outputs", len(node.output), len(function.output)),
    ):
        if have > most:
            raise ModelError(f"it has {have} {what}; the function {body.name} has {most}")
    known = {*function.attribute, *(a.name for a in body.defaults)}
    unknown = sorted({a.name for a in node.attribute} - known)
    if unknown and body.function.attribute and not body.defaults:
        raise ModelError(f"the function {body.name} has no attribute {', '.join(unknown)}")
    given = {a.name: a for a in (*body.defaults, *node.attribute)}
    passed = [name for name, value in zip(function.input, node.input, strict=False) if value]
    absent = set(function.input) - set(passed)
    graph = GraphProto(name=function.name)
    graph.node.extend(_instance_of_node(n, given, absent) for n in function.node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in passed)
    wanted = zip(function.output, node.output, strict=False)
    graph.output.extend(onnx.ValueInfoProto(name=name if value else "") for name, value in wanted)
    return graph


def _instance_of_node(node: NodeProto, given: Mapping[str, AttributeProto], absent: set[str]) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    for index, name in enumerate(made.input):
        if name in absent:
            made.input[index] = ""
    del made.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            made.attribute.append(_instance_of_graphs(attribute, given, absent))
        elif attribute.ref_attr_name in given:
            value = made.attribute.add()
            value.CopyFrom(given[attribute.ref_attr_name])
            value.name = attribute.name
    return made


def _instance_of_graphs(
    attribute: AttributeProto, given: Mapping[str, AttributeProto], absent: set[str]
) -> AttributeProto:
    if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
        return attribute
    made = AttributeProto()
    made.CopyFrom(attribute)
    for graph in [made.g] if attribute.type == AttributeProto.GRAPH else made.graphs:
        nodes = [_instance_of_node(n, given, absent) for n in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)
    return made


def type_proto(expr: Expr | None) -> TypeProto:
    """Return ONNX's type of a value, empty for an input that is left out."""
    if expr is None:
        return TypeProto()
    ty = typed(expr).checked_type_
    if not isinstance(ty, TensorType):
        raise UnsupportedOperatorError(f"it has no converter for an input of type {ty}")
    shape = [d if isinstance(d, int) else None for d in ty.shape]
    return onnx.helper.make_tensor_type_proto(element_type(ty.dtype), shape)
