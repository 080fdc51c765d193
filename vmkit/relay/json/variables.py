"""Which nodes of a document are one variable.

A variable's identity is a node of its own, ``relay.Id``, which several ``relay.Var`` may share: copies of one variable
that differ in what they tell of its type. But passes also made copies to bind them anew, and those are others: Relay
looked its variables up by node. So what is bound itself is itself; what is bound nowhere is the variable of its
identity that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["same_variables"]


def same_variables(nodes: Sequence[Any]) -> dict[int, int]:
    """Return, for the nodes of variables that are to be read from another node, the index of that."""
    bound = set(_bound(nodes))
    copies: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        if isinstance(node, dict) and node.get("type_key") == "relay.Var" and isinstance(node.get("attrs"), dict):
            copies.setdefault(str(node["attrs"].get("vid")), []).append(index)
    found: dict[int, int] = {}
    for group in copies.values():
        chosen = min(group, key=lambda index: (index not in bound, not _is_typed(nodes[index]), index))
        found |= {index: chosen for index in group if index not in bound and index != chosen}
    return found


def _is_typed(node: Mapping[str, Any]) -> bool:
    return node["attrs"].get("type_annotation", "0") != "0"


def _bound(nodes: Sequence[Any]) -> Iterator[int]:
    """Yield the indices of the variables that are bound as parameters, by Let or by a pattern."""
    for node in nodes:
        fields = node.get("attrs") if isinstance(node, dict) else None
        if not isinstance(fields, dict):
            continue
        match node.get("type_key"):
            case "relay.Let" | "relay.PatternVar":
                yield from _indices([fields.get("var")])
            case "relay.Function":
                for at in _indices([fields.get("params")]):
                    params = nodes[at] if at < len(nodes) else None
                    yield from _indices(params.get("data") if isinstance(params, dict) else ())


def _indices(values: Any) -> Iterator[int]:
    for value in values if isinstance(values, list) else ():
        if type(value) is int or (isinstance(value, str) and value.isdecimal() and len(value) < 12):
            yield int(value)
