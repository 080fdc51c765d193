"""What must hold of a graph before it is imported: names, order, attributes, and a converter for every operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
from onnx import AttributeProto

from ...errors import ModelError, UnsupportedOperatorError, suggest
from . import families
from .functions import Body, Functions, imported_versions
from .refusals import reason
from .registry import default_domain
from .schema import schema_of

__all__ = ["all_nodes", "check_model", "node_name", "opset_versions", "reads", "sorted_nodes"]


# What onnxruntime has in the domain of ONNX, in opsets in which ONNX has no such operator.
_EXTENSIONS = frozenset(
    {
        "Affine", "Crop", "DynamicSlice", "ImageScaler", "LayerNormalization", "MeanVarianceNormalization",
        "MemcpyFromHost", "MemcpyToHost", "ParametricSoftplus", "Scale", "ScaledTanh", "SimplifiedLayerNormalization",
    }
)  # fmt: skip


def node_name(node: onnx.NodeProto) -> str:
    """Return what to call a node: its name, or that of its first output."""
    return node.name or next((o for o in node.output if o), "") or node.op_type


# The domain of onnxruntime's own operators, of which there is one version; its tools leave out the import.
_MICROSOFT = "com.microsoft"


def opset_versions(model: onnx.ModelProto, opset: int | None) -> dict[str, int]:
    """Return the opset version of every domain; `opset` replaces that of ONNX's own.

    ONNX's domain and onnxruntime's are of version 1 where the model imports none.
    """
    versions = {default_domain(o.domain): int(o.version) for o in model.opset_import}
    versions.setdefault("", 1)
    versions.setdefault(_MICROSOFT, 1)
    newest = onnx.defs.onnx_opset_version()
    if opset is not None:
        versions[""] = opset
    if not 1 <= versions[""] <= newest:
        raise ModelError(f"the model has opset {versions['']}; the installed onnx knows 1 to {newest}")
    return versions


def check_model(nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], functions: Functions) -> None:
    """Raise UnsupportedOperatorError with all operators that cannot be imported, or ModelError for bad attributes.

    What an operator's function body uses is looked at too, unless the body depends on the types of its inputs.
    """
    found = _Findings(functions)
    found.look_at(nodes, versions, ())
    if found.problems:
        raise ModelError("the model is malformed:\n  " + "\n  ".join(found.problems[:20]))
    if found.missing:
        lines = [
            f"{domain or 'ai.onnx'}.{op_type} (opset {version}): {_listed(names)}{_because(domain, op_type)}"
            for (domain, op_type, version), names in sorted(found.missing.items())
        ]
        what = "1 operator is" if len(lines) == 1 else f"{len(lines)} operators are"
        raise UnsupportedOperatorError(f"{what} not supported:\n  " + "\n  ".join(lines), lines)


class _Findings:
    """What is wrong with nodes and with the functions that they call, each of which is looked at once."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions
        self.missing: dict[tuple[str, str, int], list[str]] = {}
        self.problems: list[str] = []
        self.seen: set[Any] = set()

    def look_at(self, nodes: Iterable[onnx.NodeProto], versions: Mapping[str, int], calls: tuple[Any, ...]) -> None:
        for node in all_nodes(nodes):
            domain = default_domain(node.domain)
            body = self.functions.local(node)
            if body is not None:
                self.function(body, node, versions, calls)
                continue
            if domain not in versions:
                self.problems.append(f"{_label(node)}: the model imports no opset of its domain {node.domain!r}")
                continue
            version = versions[domain]
            if families.find(domain, node.op_type, version) is None and not self.functions.depends_on_types(
                node, version
            ):
                body = self.functions.plain(node, version)
                if body is None:
                    self.missing.setdefault((domain, node.op_type, version), []).append(node_name(node))
                    continue
                self.function(body, node, versions, calls)
            self.problems += _schema_problems(node, domain, version)

    def function(self, body: Body, node: onnx.NodeProto, versions: Mapping[str, int], calls: tuple[Any, ...]) -> None:
        if body.key in calls:
            self.problems.append(f"{_label(node)}: the function {body.name} calls itself")
        elif body.key not in self.seen:
            self.seen.add(body.key)
            inner = {**versions, **imported_versions(body.function)}
            self.look_at(body.function.node, inner, (*calls, body.key))


def _because(domain: str, op_type: str) -> str:
    why = reason(domain, op_type)
    return "" if why is None else f"; {why}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(n) for n in names[:5]) + (" ..." if len(names) > 5 else "")
    return f"{len(names)} node{'s' if len(names) > 1 else ''}, {shown}"


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Yield nodes, and those of the graphs in their attributes."""
    waiting = [nodes]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [graph.node for graph in _graphs(node)]


def _graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    found = [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]
    return found + [g for a in node.attribute if a.type == AttributeProto.GRAPHS for g in a.graphs]


def _label(node: onnx.NodeProto) -> str:
    return f"node {node_name(node)!r} ({node.op_type})"


def _schema_problems(node: onnx.NodeProto, domain: str, version: int) -> list[str]:
    schema = schema_of(domain, node.op_type, version)
    if schema is None:
        # Domains other than those of ONNX have no schemas.
        is_extension = bool(domain) or node.op_type in _EXTENSIONS
        return [] if is_extension else [f"{_label(node)}: opset {version} has no such operator"]
    problems = []
    if not schema.min_input <= len(node.input) <= schema.max_input:
        problems.append(
            f"{_label(node)}: {len(node.input)} inputs; it takes {_count(schema.min_input, schema.max_input)}"
        )
    if not schema.min_output <= len(node.output) <= schema.max_output:
        problems.append(
            f"{_label(node)}: {len(node.output)} outputs; it has {_count(schema.min_output, schema.max_output)}"
        )
    given = {a.name for a in node.attribute}
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None:
            hint = suggest(attribute.name, schema.attributes)
            problems.append(f"{_label(node)}: it has no attribute {attribute.name!r} in opset {version}{hint}")
        elif not attribute.ref_attr_name and int(declared.type.value) != attribute.type:
            kind, wanted = _kind(attribute.type), declared.type.name
            problems.append(f"{_label(node)}: attribute {attribute.name!r} is of type {kind}, expected {wanted}")
    problems += [
        f"{_label(node)}: the attribute {a.name!r} is missing"
        for a in schema.attributes.values()
        if a.required and a.name not in given
    ]
    return problems


def _kind(code: int) -> str:
    return AttributeProto.AttributeType.Name(code) if code in AttributeProto.AttributeType.values() else str(code)


def _count(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most > 1 << 20 else f"{least} to {most}"


def sorted_nodes(graph: onnx.GraphProto, outer: Iterable[str]) -> list[onnx.NodeProto]:
    """Return the nodes of a graph so that each comes after what it reads.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    outer : iterable of str
        Names that are defined around the graph.

    Raises
    ------
    ModelError
        When a name is defined twice, or never, or through itself.
    """
    given = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    given |= {i.values.name for i in graph.sparse_initializer}
    produced = [o for node in graph.node for o in node.output if o]
    twice = [n for n, count in Counter(produced).items() if count > 1] + [n for n in produced if n in given]
    twice += [n for n, count in Counter(i.name for i in graph.input).items() if count > 1]
    twice += [n for n, count in Counter(i.name for i in graph.initializer).items() if count > 1]
    if twice:
        raise ModelError(f"names are defined more than once: {', '.join(map(repr, sorted(set(twice))))}")
    local, visible = set(produced), given | set(outer)
    undefined = [
        f"{name!r}, read by {_label(node)}"
        for node in graph.node
        for name in reads(node)
        if name not in local and name not in visible
    ]
    undefined += [f"{o.name!r}, an output of the graph" for o in graph.output if o.name not in local | visible]
    if undefined:
        raise ModelError("names are used that nothing defines: " + "; ".join(undefined[:10]))
    return _ordered(list(graph.node), local)


def reads(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those that its subgraphs take from outside included."""
    names = {i for i in node.input if i}
    for graph in _graphs(node):
        own = {i.name for i in graph.input} | {i.name for i in graph.initializer}
        own |= {o for n in graph.node for o in n.output}
        names |= {name for n in graph.node for name in reads(n)} - own
        names |= {o.name for o in graph.output} - own
    return names


def _ordered(nodes: list[onnx.NodeProto], local: set[str]) -> list[onnx.NodeProto]:
    defined: set[str] = set()
    waiting = [(node, reads(node) & local) for node in nodes]
    ordered: list[onnx.NodeProto] = []
    while waiting:
        later = []
        for node, needed in waiting:
            if needed <= defined:
                ordered.append(node)
                defined.update(node.output)
            else:
                later.append((node, needed))
        if len(later) == len(waiting):
            names = ", ".join(_label(node) for node, _ in later[:10])
            raise ModelError(f"the graph has a cycle: these nodes read, directly or not, what they define: {names}")
        waiting = later
    return ordered
