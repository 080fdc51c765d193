"""Walk expressions without recursion: a program may be deeper than any stack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

from ..._tvm.running import array_items
from .adt import Clause, Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar, pattern_vars
from .expr import Call, Constant, Function, GlobalVar, If, Let, Op, RelayExpr, Tuple, TupleGetItem, Var
from .lifetime import parts_at_hand
from .places import Noted, joined, noted
from .reference import RefCreate, RefRead, RefWrite
from .tuple_wrapper import TupleWrapper

__all__ = ["children", "free_vars", "post_order", "rebuilt", "rewrite", "same_nodes"]

Replace: TypeAlias = Callable[[RelayExpr, RelayExpr], RelayExpr]
"""Takes a node whose parts have been replaced, and the node as it was; returns what shall stand in its place."""

_CHILDREN: dict[type, Callable[[Any], list[Any]]] = {
    Call: lambda e: [e.op, *array_items(e.args)],
    Constant: lambda e: [],
    Constructor: lambda e: [],
    Function: lambda e: [*array_items(e.params), e.body],
    GlobalVar: lambda e: [],
    If: lambda e: [e.cond, e.true_branch, e.false_branch],
    Let: lambda e: [e.var, e.value, e.body],
    Match: lambda e: [e.data, *(part for c in e.clauses for part in (*pattern_vars(c.lhs), c.rhs))],
    Op: lambda e: [],
    RefCreate: lambda e: [e.value],
    RefRead: lambda e: [e.ref],
    RefWrite: lambda e: [e.ref, e.value],
    Tuple: lambda e: array_items(e.fields),
    TupleGetItem: lambda e: [e.tuple_value],
    Var: lambda e: [],
}


class Nodes(Protocol):
    """Some nodes: a set or mapping of them, or what says of each whether it is one."""

    def __contains__(self, node: Any, /) -> bool:  # noqa: ANN401 - as sets and mappings declare it
        """Say whether a node is one of them."""


def children(expr: RelayExpr) -> list[RelayExpr]:
    """Return the expressions directly below an expression, in order of evaluation; binders come first.

    While a program is compiled they are kept with the expression: passes walk a program many times. The caller does not
    change the list.
    """
    known = parts_at_hand()
    if known is None:
        return _CHILDREN[type(expr)](expr)
    address = expr.__chandle__()
    found = known.get(address)
    if found is None:
        found = known[address] = expr, _CHILDREN[type(expr)](expr)
    return found[1]


def post_order(expr: RelayExpr | TupleWrapper, stop: Nodes = ()) -> Iterator[RelayExpr]:
    """Yield every expression below and including `expr` once, each after its children; leave out those in `stop`."""
    seen: set[Any] = set()
    stack: list[Any] = [expr.astuple() if isinstance(expr, TupleWrapper) else expr]
    while stack:
        node = stack.pop()
        if node is None:  # all that is below the next one is done
            yield stack.pop()
        elif node not in seen and node not in stop:
            seen.add(node)
            below = children(node)
            if below:
                stack += (node, None)
                stack += reversed(below)
            else:
                yield node


def _rebuilt_match(match: Match, new: list[Any]) -> Match:
    parts = iter(new)
    data = next(parts)
    clauses = []
    for clause in match.clauses:
        # Arguments are evaluated in order: the pattern takes its variables, and what follows is the right side.
        pattern = _rebuilt_pattern(clause.lhs, parts)
        clauses.append(Clause(pattern, next(parts)))
    return Match(data, clauses, match.complete, match.span)


def _rebuilt_pattern(pattern: Pattern, variables: Iterator[Any]) -> Pattern:
    if isinstance(pattern, PatternVar):
        return PatternVar(next(variables))
    if isinstance(pattern, PatternConstructor):
        return PatternConstructor(pattern.constructor, [_rebuilt_pattern(p, variables) for p in pattern.patterns])
    if isinstance(pattern, PatternTuple):
        return PatternTuple([_rebuilt_pattern(p, variables) for p in pattern.patterns])
    return pattern


_REBUILD: dict[type, Callable[[Any, list[Any]], Any]] = {
    Call: lambda e, new: Call(new[0], new[1:], e.attrs, list(e.type_args), e.span),
    Constant: lambda e, new: Constant(e.data, e.span),
    # A constructor is known by its name and may stand for itself.
    Constructor: lambda e, new: e,
    Function: lambda e, new: Function(new[:-1], new[-1], e.ret_type, list(e.type_params), e.attrs, e.span),
    If: lambda e, new: If(new[0], new[1], new[2], e.span),
    Let: lambda e, new: Let(new[0], new[1], new[2], e.span),
    Match: _rebuilt_match,
    RefCreate: lambda e, new: RefCreate(new[0], e.span),
    RefRead: lambda e, new: RefRead(new[0], e.span),
    RefWrite: lambda e, new: RefWrite(new[0], new[1], e.span),
    Tuple: lambda e, new: Tuple(new, e.span),
    TupleGetItem: lambda e, new: TupleGetItem(new[0], e.index, e.span),
    Var: lambda e, new: Var(e.name_hint, e.type_annotation, e.span),
}


def rebuilt(expr: RelayExpr, parts: list[RelayExpr]) -> RelayExpr:
    """Return a new node like `expr`, without a type, of other parts in the order of :func:`children`."""
    made: RelayExpr = _REBUILD[type(expr)](expr, parts)
    return made


def same_nodes(a: Sequence[RelayExpr], b: Sequence[RelayExpr]) -> bool:
    """Say whether two sequences hold the same nodes."""
    return len(a) == len(b) and all([x is y or x.same_as(y) for x, y in zip(a, b, strict=True)])


@overload
def rewrite(expr: Function, substitutions: Mapping[Any, RelayExpr], replace: Replace | None = None) -> Function: ...


@overload
def rewrite(expr: RelayExpr, substitutions: Mapping[Any, RelayExpr], replace: Replace | None = None) -> RelayExpr: ...


def rewrite(expr: RelayExpr, substitutions: Mapping[Any, RelayExpr], replace: Replace | None = None) -> RelayExpr:
    """Return an expression with parts of it replaced; sharing is kept, and so is what does not change.

    A function stays a function, unless `substitutions` or `replace` name something else for it as a whole.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    substitutions : mapping
        Expressions and what stands in their place; nothing below such an expression is looked at.
    replace : callable, optional
        Takes every other node, its parts replaced already, and the node as it was (which has a type); returns what
        shall stand in its place.
    """
    done: dict[Any, RelayExpr] = dict(substitutions)
    kept = noted()
    places = None if kept is None else _Places(kept, done)
    for node in post_order(expr, stop=done):
        old = children(node)
        node_now = node
        if old:
            new = [done[c] for c in old]
            node_now = node if same_nodes(old, new) else rebuilt(node, new)
        done[node] = replace(node_now, node) if replace is not None else node_now
        if places is not None:
            places.note(node, done[node])
    return done[expr]


_MOST = 64  # calls that one call is said to stand for


class _Places:
    """Notes the places of what a rewrite replaces for the nodes that it makes."""

    def __init__(self, kept: Noted, substitutions: Mapping[Any, RelayExpr]) -> None:
        self._kept = kept
        # By each node of the result, the one of the program before in whose place, or below whose place, it stands.
        self._before: dict[Any, RelayExpr] = {new: old for old, new in substitutions.items()}

    def note(self, node: RelayExpr, made: RelayExpr) -> None:
        """Note the places for what was made of a node: those of the calls down to what both of them take."""
        new = list(post_order(made, self._before))
        if not made.same_as(node) and any(isinstance(each, Call) for each in new):
            taken = {self._before[part] for each in new for part in children(each) if part in self._before}
            place = joined(self._place(each) for each in _calls_below(node, taken))
            self._kept.update((each, joined([place, each.span])) for each in new if isinstance(each, Call))
        self._before.update((each, node) for each in new)

    def _place(self, node: RelayExpr) -> Any:  # noqa: ANN401 - one place, or several
        return self._kept.get(node, node.span)


def _calls_below(node: RelayExpr, stop: Nodes) -> list[RelayExpr]:
    """Return the calls at and below a node, down to what is to `stop` at: the nearest, in order of evaluation."""
    found: dict[RelayExpr, None] = {}
    waiting = [node]
    while waiting and len(found) < _MOST:
        each = waiting.pop(0)
        if each not in found and each not in stop:
            found[each] = None
            waiting += [part for part in children(each) if isinstance(part, Call | Tuple | TupleGetItem)]
    return [each for each in reversed(found) if isinstance(each, Call)]


def free_vars(expr: RelayExpr) -> list[Var]:
    """Return the variables that an expression uses and does not bind, in order of first use."""
    bound: set[Var] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        if isinstance(node, Function):
            bound.update(node.params)
        elif isinstance(node, Let):
            bound.add(node.var)
        elif isinstance(node, Match):
            bound.update(v for clause in node.clauses for v in pattern_vars(clause.lhs))
        elif isinstance(node, Var):
            used[node] = None
    return [variable for variable in used if variable not in bound]
