"""Which expressions use which: the graph of a function that operator fusion works on, and its post-dominators.

An expression is a node; an edge leads from it to an operator or tuple that uses it, with the fusion pattern of that
use. What anything else uses (a branch, a Let, a function's result) is external: it exists as a value of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..._dataclasses import dataclass
from ..ir import Any as AnyDim
from ..ir import (
    Call,
    Constant,
    Constructor,
    Function,
    GlobalVar,
    Op,
    RelayExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Type,
    children,
    is_call,
    post_order,
)
from ..op.registry import OpPattern, entry

__all__ = [
    "Dominator",
    "ForwardNode",
    "forward_graph",
    "is_fused_or_external",
    "is_shaped_by_values",
    "post_dominators",
]

# Scalars of these types are written into the code of a kernel.
_IMMEDIATE_DTYPES = ("int32", "int64", "float32", "float64", "bool")

# Operators whose result has a shape that values of the operands decide, besides the dyn. ones.
_SHAPED_BY_VALUES = ("arange", "argwhere", "full", "sparse_reshape", "sparse_to_dense", "unique")


@dataclass(eq=False)
class ForwardNode:
    """An expression as a node of the graph.

    Attributes
    ----------
    expr : Expr
        The expression.
    index : int
        Its place in post-order: after all that it uses.
    pattern : OpPattern
        How the operator may be fused; ``OPAQUE`` for all that is no operator, tuple or field.
    outputs : list of (ForwardNode, OpPattern)
        The operators and tuples that use it, and how.
    is_external : bool
        Whether something else uses it, too.
    """

    expr: RelayExpr
    index: int = -1
    pattern: OpPattern = OpPattern.OPAQUE
    outputs: list[tuple[ForwardNode, OpPattern]] = field(default_factory=list)
    is_external: bool = False


@dataclass(eq=False)
class Dominator:
    """A node of the tree of post-dominators.

    Attributes
    ----------
    node : ForwardNode
        The node.
    parent : Dominator or None
        The nearest node that lies on all ways from this one to the results.
    depth : int
        How far it is from the root.
    pattern : OpPattern
        The greatest pattern on the ways to the parent.
    """

    node: ForwardNode
    parent: Dominator | None
    depth: int
    pattern: OpPattern


def is_fused_or_external(function: Function) -> bool:
    """Say whether a function is one kernel already, or meant for another compiler: neither is looked into."""
    return bool(function.attrs.get("Primitive")) or bool(function.attrs.get("Compiler"))


class _Skipped:
    """The functions below a root that are not looked into."""

    def __contains__(self, node: RelayExpr) -> bool:
        return isinstance(node, Function) and is_fused_or_external(node)


def forward_graph(root: RelayExpr) -> list[ForwardNode]:
    """Return the nodes of a typed expression (or function) in post-order, linked to their users."""
    nodes: dict[Any, ForwardNode] = {}
    order = [n for n in post_order(root, stop=_Skipped()) if not isinstance(n, Op | GlobalVar | Constructor | Function)]
    for index, each in enumerate(order):
        nodes[each] = ForwardNode(each, index)
    if root in nodes:
        nodes[root].is_external = True
    for expr in post_order(root, stop=_Skipped()):
        for used, pattern in _uses(expr, nodes):
            if used not in nodes:
                continue
            if pattern is None:
                nodes[used].is_external = True
            else:
                nodes[used].outputs.append((nodes[expr], pattern))
    return list(nodes.values())


def _uses(expr: RelayExpr, nodes: dict[Any, ForwardNode]) -> Iterator[tuple[RelayExpr, OpPattern | None]]:
    """Yield what an expression uses, each with the pattern of the use, None where it is external; set its own."""
    match expr:
        case Constant():
            is_immediate = not tuple(expr.data.shape) and str(expr.data.dtype) in _IMMEDIATE_DTYPES
            nodes[expr].pattern = OpPattern.ELEMWISE if is_immediate else OpPattern.OPAQUE
        case Call():
            nodes[expr].pattern = _call_pattern(expr)
            if not isinstance(expr.op, Op):
                yield expr.op, OpPattern.OPAQUE
            for arg in expr.args:
                yield arg, _edge_pattern(expr, arg, nodes[expr].pattern)
        case Tuple():
            nodes[expr].pattern = OpPattern.TUPLE
            for part in expr.fields:
                yield part, OpPattern.INJECTIVE if isinstance(part.checked_type, TensorType) else None
        case TupleGetItem():
            ty = expr.tuple_value.checked_type
            # A kernel takes tensors and tuples of tensors, nothing else.
            if isinstance(ty, TupleType) and all(isinstance(f, TensorType) for f in ty.fields):
                nodes[expr].pattern = OpPattern.INJECTIVE
                yield expr.tuple_value, OpPattern.INJECTIVE
            else:
                yield expr.tuple_value, None
        case _:
            # Nothing is fused across a Let, a branch, a function or a reference.
            yield from ((part, None) for part in children(expr))


def _call_pattern(call: Call) -> OpPattern:
    if not isinstance(call.op, Op):
        return OpPattern.OPAQUE
    if _is_dynamic(call.checked_type) and is_shaped_by_values(call):
        return OpPattern.OPAQUE
    return entry(call.op).pattern


def _is_dynamic(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return any(map(_is_dynamic, ty.fields))
    return isinstance(ty, TensorType) and any(isinstance(d, AnyDim) for d in ty.shape)


def is_shaped_by_values(call: Call) -> bool:
    """Say whether the shape of an operator's result depends on the values of its operands."""
    if is_call(call, "strided_slice"):
        return call.attrs.begin is None or call.attrs.end is None
    return call.op.name.startswith("dyn.") or call.op.name in _SHAPED_BY_VALUES


def _edge_pattern(call: Call, arg: RelayExpr, pattern: OpPattern) -> OpPattern:
    """Return the pattern of an operand: a broadcast is elementwise for operands of the result's shape."""
    if pattern is not OpPattern.BROADCAST:
        return pattern
    own, result = arg.checked_type, call.checked_type
    if isinstance(own, TensorType) and isinstance(result, TensorType) and _same_shape(own, result):
        return OpPattern.ELEMWISE
    return pattern


def _same_shape(a: TensorType, b: TensorType) -> bool:
    """Say whether two shapes are written alike; unknown dimensions are, where both are unknown."""
    if len(a.shape) != len(b.shape):
        return False
    pairs = zip(a.shape, b.shape, strict=True)
    return all(
        isinstance(y, AnyDim) if isinstance(x, AnyDim) else not isinstance(y, AnyDim) and x == y for x, y in pairs
    )


def post_dominators(nodes: list[ForwardNode]) -> list[Dominator]:
    """Return the post-dominator of each node of a graph, in the order of the nodes."""
    tree: dict[int, Dominator] = {}
    for node in reversed(nodes):
        if node.is_external:
            tree[node.index] = Dominator(node, None, 1, OpPattern.OPAQUE)
            continue
        pattern = OpPattern.ELEMWISE
        parent: Dominator | None = None
        for position, (user, edge) in enumerate(node.outputs):
            of_user = tree[user.index]
            if position == 0:
                parent = of_user
            else:
                parent, between = _common_ancestor(parent, of_user)
                pattern = max(pattern, between)
            pattern = max(pattern, edge)
        tree[node.index] = Dominator(node, parent, parent.depth + 1 if parent else 1, pattern)
    return [tree[node.index] for node in nodes]


def _common_ancestor(a: Dominator | None, b: Dominator | None) -> tuple[Dominator | None, OpPattern]:
    """Return the nearest node that dominates two, and the greatest pattern on the ways to it."""
    pattern = OpPattern.ELEMWISE
    while a is not b:
        if a is None or b is None:
            return None, pattern
        if a.depth >= b.depth:
            up, pattern = a, max(pattern, a.pattern)
            if a.depth == b.depth:
                pattern = max(pattern, b.pattern)
                b = b.parent
            a = up.parent
        else:
            pattern = max(pattern, b.pattern)
            b = b.parent
    return a, pattern
