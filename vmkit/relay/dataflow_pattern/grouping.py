"""The groups of expressions that a pattern describes in a graph, each of which could be a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..._dataclasses import dataclass
from ...stack import on_deep_stack
from ..ir import Call, Constant, Function, If, Let, Match, Op, RelayExpr, Tuple, TupleGetItem, Var, post_order
from ..ir import rewrite as rewritten
from .matcher import Matcher
from .patterns import (
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    WildcardPattern,
)

__all__ = ["PARTITIONED", "Group", "groups_by_root", "operator_names"]

# The attribute of a function that a group has become.
PARTITIONED = "PartitionedFromPattern"


@dataclass(frozen=True, eq=False)
class Group:
    """What one match of a pattern takes from a graph.

    Attributes
    ----------
    root : Expr
        What the pattern as a whole describes.
    found : dict of DFPattern to list of Expr
        What each part of the pattern describes.
    args : list of Expr
        What comes from outside: what wildcards and variables of the pattern describe, in their order, each once.
    params : list of Var
        What stands for `args`, without types.
    body : Expr
        The root over `params`.
    """

    root: RelayExpr
    found: dict[DFPattern, list[RelayExpr]]
    args: list[RelayExpr]
    params: list[Var]
    body: RelayExpr

    @property
    def name(self) -> str:
        """What the group is made of, in the order of evaluation."""
        return "".join(_name(node) for node in post_order(self.body))

    def inside(self) -> list[RelayExpr]:
        """Return the expressions of the graph that are of the group, and not arguments of it."""
        return list(post_order(self.root, stop=set(self.args)))


def groups_by_root(pattern: DFPattern, expr: RelayExpr) -> dict[RelayExpr, Group]:
    """Return the groups that a pattern describes in an expression, by their roots: from the outermost in.

    No two overlap, and what is inside of one is used outside of it only by what leads to its root again.
    """
    return on_deep_stack(_groups, pattern, expr)


def _groups(pattern: DFPattern, expr: RelayExpr) -> dict[RelayExpr, Group]:
    matcher = Matcher(expr)
    parts = _parts_in_order(pattern)
    partitioned: set[Any] = set()
    taken: set[Any] = set()
    found: dict[Any, Group] = {}
    number = 0
    for node in reversed(matcher.graph.nodes):
        if isinstance(node, Function) and node.attrs.get(PARTITIONED):
            partitioned.update(post_order(node))
        if node in taken or node in partitioned:
            continue
        matched = matcher.match(pattern, node)
        if matched is None:
            continue
        group = _group(node, matched, parts, number)
        number += 1
        inside = [n for n in group.inside() if not isinstance(n, Op | Function | Constant)]
        if taken.isdisjoint(inside) and _is_closed(matcher, group, inside):
            taken.update(inside)
            found[node] = group
    return found


def _is_closed(matcher: Matcher, group: Group, inside: Sequence[RelayExpr]) -> bool:
    """Say whether what is inside of a group is used outside of it only on the way to its root."""
    graph, own = matcher.graph, set(group.inside())
    for node in inside:
        if node.same_as(group.root):
            continue
        for user in graph.users.get(node, ()):
            if user not in own and not graph.dominates(group.root, user):
                return False
    return True


def _group(root: RelayExpr, found: dict[DFPattern, list[RelayExpr]], parts: list[DFPattern], number: int) -> Group:
    """Return the group of a match: it ends at what the leaves of the pattern describe."""
    held = _described_inside(found, parts)
    params: dict[Any, Var] = {}
    for part in parts:
        for outside in _taken_in(part, found.get(part, [])):
            is_embedded = isinstance(outside, Constant) and _asks_for_constant(part)
            if outside not in held and not isinstance(outside, Op | Function) and not is_embedded:
                params.setdefault(outside, Var(f"FunctionVar_{number}_{len(params)}"))
    return Group(root, found, list(params), list(params.values()), rewritten(root, params))


def _described_inside(found: dict[DFPattern, list[RelayExpr]], parts: list[DFPattern]) -> set[RelayExpr]:
    """Return what leaves of a pattern describe that is no argument: what lies on paths, and in functions."""
    held: set[Any] = set()
    for part in parts:
        if isinstance(part, DominatorPattern):
            held.update(found.get(part.parent, ()))
            held.update(found.get(part.path, ()))
        if isinstance(part, FunctionPattern):
            for function in found.get(part, ()):
                held.update(post_order(function))
    return held


def _taken_in(part: DFPattern, described: list[RelayExpr]) -> Iterator[RelayExpr]:
    """Yield what may come from outside: what a leaf of a pattern describes, and operands that it leaves open."""
    if isinstance(part, CallPattern) and part.args is None:
        for call in described:
            yield from call.args
    elif isinstance(part, TuplePattern) and part.fields is None:
        for each in described:
            yield from each.fields
    elif not _parts(part):
        yield from described


def _asks_for_constant(part: DFPattern) -> bool:
    return isinstance(part, ConstantPattern) or (isinstance(part, ExprPattern) and isinstance(part.expr, Constant))


def operator_names(pattern: DFPattern) -> set[str]:
    """Return the names of the operators that a pattern asks for."""
    parts = _parts_in_order(pattern)
    return {part.expr.name for part in parts if isinstance(part, ExprPattern) and isinstance(part.expr, Op)}


def _parts(pattern: DFPattern) -> list[DFPattern]:
    """Return the patterns directly below a pattern, in the order of what they describe."""
    match pattern:
        case AltPattern():
            return [pattern.left, pattern.right]
        case AttrPattern() | DataTypePattern() | ShapePattern() | TypePattern():
            return [pattern.pattern]
        case CallPattern():
            return [pattern.op, *(pattern.args or ())]
        case DominatorPattern():
            return [pattern.parent, pattern.path, pattern.child]
        case FunctionPattern():
            return [*(pattern.params or ()), pattern.body]
        case IfPattern():
            return [pattern.cond, pattern.true_branch, pattern.false_branch]
        case LetPattern():
            return [pattern.var, pattern.value, pattern.body]
        case TupleGetItemPattern():
            return [pattern.tuple]
        case TuplePattern():
            return list(pattern.fields or ())
        case WildcardPattern() if pattern.pattern is not None:
            return [pattern.pattern]
    return []


def _parts_in_order(pattern: DFPattern) -> list[DFPattern]:
    """Return a pattern and all below it, each once and after those below it; one may refer to itself."""
    order: list[DFPattern] = []
    seen: set[DFPattern] = set()
    waiting = [(pattern, False)]
    while waiting:
        part, is_done = waiting.pop()
        if is_done:
            order.append(part)
        elif part not in seen:
            seen.add(part)
            waiting.append((part, True))
            waiting += [(each, False) for each in reversed(_parts(part))]
    return order


_NAMES: dict[type, str] = {Function: "Function", If: "If_", Let: "Let_", Match: "Match_", Tuple: "Tuple_"}


def _name(node: RelayExpr) -> str:
    if isinstance(node, Call):
        return f"{node.op.name}_" if isinstance(node.op, Op) else "Call_"
    if isinstance(node, TupleGetItem):
        return f"TupleGetItem{node.index}_"
    return _NAMES.get(type(node), "")
