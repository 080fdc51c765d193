"""The graph of a Relay module: the calls of its functions, and what flows between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import tvm
from tvm.ir import GlobalVar, Op

from ..relay.ir import (
    Call,
    Clause,
    Constant,
    Constructor,
    Function,
    If,
    Let,
    Match,
    RelayExpr,
    TupleGetItem,
    Var,
    pattern_vars,
    type_text,
)
from ..relay.ir.dim_text import own_name
from ..relay.ir.visit import children, post_order
from ..relay.text.metadata import MetaSection
from ..relay.text.printed_attributes import AttributePrinter
from ..relay.transform import InferType
from .graph import Edge, Graph, Kind, Node

__all__ = ["of_relay"]

_SHOWN = 120  # characters of an attribute's text
_NAMES: Mapping[type, tuple[str, Kind]] = {
    If: ("if", "control"),
    Match: ("match", "control"),
    Function: ("fn", "control"),
}


def of_relay(mod: tvm.IRModule, title: str, weights: Collection[str] = ()) -> Graph:
    """Return the graph of a module's functions; each but ``main`` stands in a scope of its own.

    Parameters
    ----------
    mod : IRModule
        The module; its types are inferred.
    title : str
        What to call it.
    weights : collection of str
        The parameters of ``main`` that are the model's own, and no inputs.

    Raises
    ------
    VMKitError
        If the module is not well typed.
    """
    typed = InferType()(mod)
    functions = {gvar.name_hint: func for gvar, func in typed.functions.items() if isinstance(func, Function)}
    reader = _Reader(weights)
    for name in sorted(functions, key=lambda name: (name != "main", name)):
        reader.function(functions[name], "" if name == "main" else f"@{name}")
    return Graph(title, reader.nodes, reader.edges)


class _Reader:
    def __init__(self, weights: Collection[str]) -> None:
        self.weights = weights
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.names: dict[Any, str] = {}

    def function(self, func: Function, scope: str) -> None:
        """Add the nodes of a global function."""
        given: dict[Any, tuple[int, ...]] = {}
        held = [param for param in func.params if not scope and param.name_hint in self.weights]
        given.update(dict.fromkeys(held, ()))
        for param in func.params:
            if param not in given:
                given[param] = (self.add(Node(param.name_hint, "input", "input", _types(param), {}, scope), ()),)
        nodes = [*post_order(func.body)]
        given.update(_bound(nodes))
        self.names = {node.value: node.var.name_hint for node in nodes if isinstance(node, Let)}
        for node in nodes:
            if not isinstance(node, Var):
                given[node] = self.given_by(node, given, scope)
        self.add(Node("", "output", "output", _types(func.body), {}, scope), _sources([func.body], given))

    def given_by(self, node: RelayExpr, given: Mapping[Any, Any], scope: str) -> tuple[int, ...]:
        """Return the nodes that give an expression's value; a node is added for what computes something."""
        match node:
            case Constant() | GlobalVar() | Op() | Constructor():
                return ()
            case Let():
                return _sources([node.body], given)
            case Call():
                operator, kind = _operator(node)
            case _ if type(node) in _NAMES:
                operator, kind = _NAMES[type(node)]
            case _:
                return _sources(children(node), given)
        below = [each for each in children(node) if not (isinstance(node, Function) and isinstance(each, Var))]
        name = _name(node) or self.names.get(node, "")
        made = Node(name, operator, kind, _types(node), _attributes(node), _joined(scope, _scope_of(name)))
        return (self.add(made, _sources(below, given)),)

    def add(self, node: Node, sources: Iterable[int]) -> int:
        """Add a node that takes what others give; return its number."""
        at = len(self.nodes)
        self.nodes.append(node)
        self.edges += [Edge(source, at, ", ".join(self.nodes[source].types)) for source in sources]
        return at


def _bound(nodes: Iterable[RelayExpr]) -> dict[Any, RelayExpr]:
    """Return what variables stand for: the values of lets, and the data that patterns take apart."""
    bound: dict[Any, RelayExpr] = {}
    for node in nodes:
        if isinstance(node, Let):
            bound[node.var] = node.value
        elif isinstance(node, Match):
            for clause in node.clauses:
                assert isinstance(clause, Clause)
                bound.update(dict.fromkeys(pattern_vars(clause.lhs), node.data))
    return bound


def _sources(parts: Iterable[RelayExpr], given: Mapping[Any, Any]) -> tuple[int, ...]:
    """Return the nodes that give expressions, each once; a function that calls itself does not wait for itself."""
    found: dict[int, None] = {}
    for part in parts:
        sources: Any = part
        while sources is not None and not isinstance(sources, tuple):
            sources = given.get(sources)
        found.update(dict.fromkeys(sources or ()))
    return tuple(found)


def _operator(call: Call) -> tuple[str, Kind]:
    is_weighted = any(isinstance(arg, Constant) and arg.data.ndim > 1 for arg in call.args)
    match call.op:
        case Op():
            return call.op.name, "weighted" if is_weighted else "operator"
        case GlobalVar() | Constructor():
            name = f"@{call.op.name_hint}" if isinstance(call.op, GlobalVar) else call.op.name_hint
            return name, "control" if isinstance(call.op, GlobalVar) else "operator"
    return "call", "control"


def _attributes(node: RelayExpr) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(node, Call):
        printer = AttributePrinter(MetaSection(), own_name, show_meta_data=False)
        pairs = (pair.partition("=") for pair in printer.call(node.attrs, node.op))
        found = {name: _short(value) for name, _, value in pairs}
        constants = [arg for arg in node.args if isinstance(arg, Constant)]
        found |= {f"constant {at}": type_text(arg.checked_type) for at, arg in enumerate(constants)}
    elif isinstance(node, TupleGetItem):
        found = {"index": str(node.index)}
    return found


def _types(node: RelayExpr) -> tuple[str, ...]:
    return (type_text(node.checked_type),)


def _name(node: RelayExpr) -> str:
    """Return the name of the model's node of which an expression was made; what a text says has a line instead."""
    span = node.span
    return str(span.source_name.name) if span is not None and span.line == 0 else ""


def _scope_of(name: str) -> str:
    return name.strip("/").rpartition("/")[0]


def _joined(*scopes: str) -> str:
    return "/".join(scope for scope in scopes if scope)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
