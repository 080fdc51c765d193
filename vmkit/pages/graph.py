"""A model as the picture sees it: nodes, what flows between them, and the scopes that are drawn as one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal

from .._dataclasses import dataclass

__all__ = ["Edge", "Graph", "Kind", "Node"]

Kind = Literal["input", "output", "weighted", "control", "operator"]
_SHORTEST_CHAIN = 3


@dataclass(frozen=True)
class Node:
    """An operator, an input or an output.

    Attributes
    ----------
    name : str
        What the model calls it; nothing where it has no name.
    operator : str
        What it computes.
    kind : Kind
        How it is coloured: `weighted` nodes hold constants of the model, `control` nodes decide what runs.
    types : sequence of str
        What it gives, such as ``float32[n, 64]``.
    attributes : mapping of str to str
        Its attributes and constants, as text.
    scope : str
        The part of the model in which it stands, with ``/`` between the parts; nothing at the top.
    """

    name: str
    operator: str
    kind: Kind = "operator"
    types: Sequence[str] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""


@dataclass(frozen=True)
class Edge:
    """A value that one node gives and another takes; nodes are counted from 0."""

    source: int
    target: int
    text: str = ""


@dataclass(frozen=True)
class Graph:
    """The nodes of a model, in an order in which they can run."""

    title: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]

    def with_scopes(self) -> Graph:
        """Return it with a scope for each chain of nodes, where the model itself names no scopes."""
        if any(node.scope for node in self.nodes):
            return self
        scopes = _chains(self)
        nodes = [replace(node, scope=scopes.get(at, "")) for at, node in enumerate(self.nodes)]
        return replace(self, nodes=nodes)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values, in the form that the page's script reads."""
        return {
            "title": self.title,
            "nodes": [
                {
                    "name": node.name,
                    "operator": node.operator,
                    "kind": node.kind,
                    "types": [*node.types],
                    "attributes": dict(node.attributes),
                    "scope": node.scope,
                }
                for node in self.nodes
            ],
            "edges": [[edge.source, edge.target, edge.text] for edge in self.edges],
        }


def _chains(graph: Graph) -> dict[int, str]:
    """Return the scopes of nodes that follow each other without a branch: from the first's operator to the last's."""
    links = {(edge.source, edge.target) for edge in graph.edges}
    readers = Counter(source for source, _ in links)
    sources = Counter(target for _, target in links)
    inner = [node.kind not in ("input", "output") for node in graph.nodes]
    follows = {
        source: target
        for source, target in links
        if readers[source] == 1 and sources[target] == 1 and inner[source] and inner[target]
    }
    heads = sorted(set(follows) - set(follows.values()))
    scopes: dict[int, str] = {}
    for number, head in enumerate(heads, 1):
        chain = [head]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        if len(chain) >= _SHORTEST_CHAIN:
            operators = f"{graph.nodes[chain[0]].operator} … {graph.nodes[chain[-1]].operator}"
            scopes.update(dict.fromkeys(chain, f"chain {number}: {operators}"))
    return scopes
