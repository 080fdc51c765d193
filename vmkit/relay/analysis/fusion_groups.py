"""Which operators become one kernel: groups of a graph, grown along the post-dominators of its nodes.

An operator joins the group of its post-dominator if every operator on the ways between them can be in that kernel.
There are three rounds: what ends in a convolution or the like takes its elementwise neighbours, then injective
operators join, and last those that make the fields of a tuple which has become a part of a kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from ..._dataclasses import dataclass
from ..ir import Any as AnyDim
from ..ir import Call, RelayExpr, TensorType, Tuple, TupleGetItem, Var
from ..op.registry import OpPattern
from .forward_graph import Dominator, ForwardNode, forward_graph, post_dominators

__all__ = ["FusionGroup", "FusionLimits", "fusion_groups"]

Condition = Callable[[OpPattern, bool], bool]


@dataclass(frozen=True)
class FusionLimits:
    """How large a group may become.

    Attributes
    ----------
    operators : int
        The greatest number of nodes in a group.
    arguments : int
        The greatest number of arguments of a kernel, results and the sizes of unknown dimensions included; 0 for any.
    """

    operators: int = 256
    arguments: int = 0


@dataclass(eq=False)
class FusionGroup:
    """A set of nodes that are one kernel; groups that were merged into another know it as their parent.

    Attributes
    ----------
    root : Expr
        The node that the results of the group come from.
    pattern : OpPattern
        The pattern of the whole.
    size : int
        How many nodes it has.
    arguments : int
        How many arguments its nodes take from variables and tuples.
    """

    root: RelayExpr
    pattern: OpPattern
    is_anchored: bool
    arguments: int
    size: int = 1
    parent: FusionGroup | None = None

    def whole(self) -> FusionGroup:
        """Return the group that this one has become a part of, or itself."""
        found = self
        while found.parent is not None:
            found = found.parent
        node = self
        while node is not found:  # the next search is short
            assert node.parent is not None
            node.parent, node = found, node.parent
        return found


def fusion_groups(root: RelayExpr, opt_level: int, limits: FusionLimits) -> dict[RelayExpr, FusionGroup]:
    """Return the group that each node of a typed expression (or function) belongs to.

    Parameters
    ----------
    root : Expr or Function
        The expression.
    opt_level : int
        At 0 each node is a group of its own.
    limits : FusionLimits
        How large a group may become.
    """
    nodes = forward_graph(root)
    partition = _Partition(nodes, limits)
    if opt_level > 0:
        partition.run()
    return {node.expr: group.whole() for node, group in zip(nodes, partition.groups, strict=True)}


class _Partition:
    def __init__(self, nodes: list[ForwardNode], limits: FusionLimits) -> None:
        self.nodes = nodes
        self.by_expr = {node.expr: node for node in nodes}
        self.limits = limits
        self.dominators: list[Dominator] = []
        self.groups = [
            FusionGroup(n.expr, n.pattern, n.pattern is OpPattern.OUT_ELEMWISE_FUSABLE, _argument_count(n.expr))
            for n in nodes
        ]
        # Where the number of arguments is limited: nodes whose fusion waits until the key has been looked at, which
        # takes arguments that have not been counted yet.
        self.waiting: dict[ForwardNode, list[ForwardNode]] = defaultdict(list)
        self.uncounted: ForwardNode | None = None

    def run(self) -> None:
        self.dominators = post_dominators(self.nodes)
        for fuse in (self.fuse_elementwise, self.fuse_injective, self.fuse_into_tuple):
            for node in self.nodes:
                self.uncounted = None
                self.retry(node)
                parent = self.dominators[node.index].parent
                if self.groups[node.index].pattern is OpPattern.OPAQUE or parent is None:
                    continue
                if self.has_room(node, parent.node):
                    fuse(node, self.dominators[node.index], parent.node)

    # -- the three rounds

    def fuse_elementwise(self, node: ForwardNode, dominator: Dominator, sink: ForwardNode) -> None:
        """Fuse what is at most a broadcast, and what ends in an operator that takes elementwise ones behind it."""
        pattern = self.groups[node.index].pattern
        if self.is_settled(node, sink):
            return
        if pattern is OpPattern.OUT_ELEMWISE_FUSABLE:
            if dominator.pattern is OpPattern.ELEMWISE:
                self.fuse_if(node, sink, lambda kind, _: kind <= OpPattern.BROADCAST)
        else:
            self.fuse_broadcast(node, dominator, sink)

    def fuse_injective(self, node: ForwardNode, dominator: Dominator, sink: ForwardNode) -> None:
        """Fuse injective operators, tuples among them, once convolutions and the like have taken theirs."""
        if self.is_settled(node, sink):
            return
        if self.groups[node.index].pattern in (OpPattern.INJECTIVE, OpPattern.TUPLE):
            self.fuse_if(node, sink, lambda kind, _: kind <= OpPattern.INJECTIVE)
        else:
            self.fuse_broadcast(node, dominator, sink)

    def fuse_into_tuple(self, node: ForwardNode, dominator: Dominator, sink: ForwardNode) -> None:
        """Fuse injective operators into a tuple that is a part of a kernel, and not the end of one."""
        if self.groups[node.index].pattern > OpPattern.INJECTIVE:
            return
        group = self.groups[sink.index]
        if group.pattern is OpPattern.TUPLE and group.whole().pattern <= OpPattern.INJECTIVE:
            # The ways are checked so that no two such tuples end up in one kernel.
            self.fuse_if(node, sink, lambda kind, _: kind <= OpPattern.INJECTIVE)

    def is_settled(self, node: ForwardNode, sink: ForwardNode) -> bool:
        group = self.groups[sink.index]
        return group.pattern is OpPattern.TUPLE or self.groups[node.index].whole() is group.whole()

    def fuse_broadcast(self, node: ForwardNode, dominator: Dominator, sink: ForwardNode) -> None:
        if self.groups[node.index].pattern > OpPattern.BROADCAST or dominator.pattern > OpPattern.COMM_REDUCE:
            return
        self.fuse_if(
            node,
            sink,
            lambda kind, is_sink: kind <= (OpPattern.OUT_ELEMWISE_FUSABLE if is_sink else OpPattern.INJECTIVE),
        )

    # -- merging

    def between(self, source: ForwardNode, sink: ForwardNode) -> list[ForwardNode]:
        """Return the nodes on the ways from one to its post-dominator, both ends left out."""
        seen: dict[ForwardNode, None] = {}
        stack = [user for user, _ in source.outputs]
        while stack:
            node = stack.pop()
            if node is not sink and node not in seen:
                seen[node] = None
                stack += [user for user, _ in node.outputs]
        return list(seen)

    def fuse_if(self, node: ForwardNode, sink: ForwardNode, condition: Condition) -> None:
        """Merge a node and all up to its post-dominator into the group of that, if all of them may be in it."""
        inner = self.between(node, sink)
        if not condition(self.groups[sink.index].whole().pattern, True):
            return
        if all(condition(self.groups[n.index].whole().pattern, False) for n in inner):
            self.merge([node, *inner], node, sink)

    def merge(self, nodes: list[ForwardNode], source: ForwardNode, sink: ForwardNode) -> None:
        if self.uncounted is not None:
            self.waiting[self.uncounted].append(source)
            return
        for node in nodes:
            child, whole = self.groups[node.index].whole(), self.groups[sink.index].whole()
            if child is whole:
                continue
            whole.size += child.size
            whole.arguments += child.arguments
            child.parent = whole
            if child.is_anchored:
                whole.is_anchored = True
                whole.pattern = max(child.pattern, whole.pattern)

    # -- limits

    def has_room(self, node: ForwardNode, sink: ForwardNode) -> bool:
        total = self.groups[sink.index].whole().size + self.groups[node.index].size
        if total > self.limits.operators:
            return False
        if total + sum(self.groups[n.index].size for n in self.between(node, sink)) > self.limits.operators:
            return False
        limit = self.argument_limit(node)
        return limit == 0 or max((self.fused_arguments(user, True) for user, _ in node.outputs), default=0) <= limit

    def argument_limit(self, node: ForwardNode) -> int:
        """Return how many arguments are left beside the results; 0 where there is no limit."""
        results = 0
        for user, _ in node.outputs:
            results += 1 + (_unknown_dims(user.expr) if isinstance(user.expr, Call) else 0)
        return max(self.limits.arguments - results, 0)

    def fused_arguments(self, node: ForwardNode, may_wait: bool) -> int:
        """Return how many arguments a node has together with the groups of its operands."""
        own = self.groups[node.index]
        total, seen = own.arguments, {own.whole()}
        for operand in _operands(node.expr):
            if isinstance(operand, Var) or operand not in self.by_expr:
                continue
            of_operand = self.by_expr[operand]
            group = self.groups[of_operand.index].whole()
            if group in seen:
                continue
            seen.add(group)
            if group.arguments > 0:
                total += group.arguments
            elif may_wait:
                self.uncounted = node
            else:
                total += self.fused_arguments(of_operand, False)
        return total

    def retry(self, node: ForwardNode) -> None:
        """Fuse what waited for a node, if it still fits."""
        for source in self.waiting.pop(node, ()):
            if self.fused_arguments(node, False) > self.argument_limit(node):
                continue
            parent = self.dominators[source.index].parent
            assert parent is not None
            if not self.groups[parent.node.index].is_anchored:
                self.merge([source, *self.between(source, parent.node)], source, parent.node)


def _operands(expr: RelayExpr) -> list[RelayExpr]:
    if isinstance(expr, Call):
        return list(expr.args)
    return list(expr.fields) if isinstance(expr, Tuple) else []


def _argument_count(expr: RelayExpr) -> int:
    """Return how many arguments a kernel has for the variables and fields that a node takes."""
    taken = [expr] if isinstance(expr, Var) else _operands(expr)
    return sum(_argument_size(each) for each in taken if isinstance(each, Var | TupleGetItem))


def _argument_size(expr: RelayExpr) -> int:
    unknown = _unknown_dims(expr)
    # A tensor of unknown size comes with its sizes and its strides.
    return 1 + unknown + (len(expr.checked_type.shape) if unknown else 0)


def _unknown_dims(expr: RelayExpr) -> int:
    ty = expr.checked_type
    return sum(isinstance(d, AnyDim) for d in ty.shape) if isinstance(ty, TensorType) else 0
