"""Regions of a program between annotations: what ``compiler_begin`` and ``compiler_end`` enclose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ..._dataclasses import dataclass
from ...errors import ModelError
from ..ir import Call, Op, RelayExpr, children, post_order

__all__ = ["AnnotatedRegion", "AnnotatedRegionSet"]


@dataclass(eq=False)
class AnnotatedRegion:
    """A part of a program for one code generator.

    Attributes
    ----------
    id : int
        Its number.
    target : str
        The name of the code generator.
    args : list of Call
        The annotations with which values enter it.
    rets : list of Call
        The annotations with which values leave it.
    nodes : set of Expr
        What it consists of, annotations included.
    """

    id: int
    target: str
    args: list[Call] = field(default_factory=list)
    rets: list[Call] = field(default_factory=list)
    nodes: set[Any] = field(default_factory=set)


class AnnotatedRegionSet:
    """The regions of an expression, none of which has an expression in common with another.

    Parameters
    ----------
    expr : Expr or Function
        The expression.
    region_begin_op, region_end_op : Op
        The annotations with which a value enters a region and leaves it.

    Raises
    ------
    ModelError
        When a value enters a region that it never leaves, or leaves one under another name than it entered.

    Examples
    --------
    >>> from vmkit import relay
    >>> from vmkit.relay.op.annotation import compiler_begin, compiler_end
    >>> x = relay.var("x", shape=(2,))
    >>> marked = compiler_end(relay.abs(compiler_begin(x, "npu")), "npu")
    >>> regions = relay.analysis.AnnotatedRegionSet(marked, compiler_begin(x, "").op, compiler_end(x, "").op)
    >>> [(region.target, len(region.nodes)) for region in regions]
    [('npu', 3)]
    """

    def __init__(self, expr: RelayExpr, region_begin_op: Op, region_end_op: Op) -> None:
        self._begin, self._end = region_begin_op, region_end_op
        self._regions: dict[int, AnnotatedRegion] = {}
        self._of: dict[Any, AnnotatedRegion] = {}
        self._begun = 0
        self._users: dict[Any, list[RelayExpr]] = {}
        # Each annotation with which a value enters begins a region, and what uses two of them makes them one.
        for node in post_order(expr):
            self._place(node)
            for end in filter(self._is_end, children(node)):
                self._users.setdefault(end, []).append(node)
        for region in self:
            if not region.rets:
                raise ModelError(f"a value enters a region for {region.target!r} that nothing leaves")
            self._close(region)

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self._regions.values())

    def get_region(self, expr: RelayExpr) -> AnnotatedRegion | None:
        """Return the region that an expression belongs to, or None."""
        return self._of.get(expr)

    def merge(self, source: AnnotatedRegion, region: AnnotatedRegion) -> None:
        """Make one region a part of another, which keeps its number; what left the one to enter the other is inside.

        Parameters
        ----------
        source, region : AnnotatedRegion
            Both of this set, and for the same code generator.
        """
        self._join(source, region)
        self._close(region)

    def _close(self, region: AnnotatedRegion) -> None:
        """Take what leaves a region only to enter it again from what enters and leaves it."""
        inner = {begin for begin in region.args if begin.args[0] in region.nodes}
        region.args = [begin for begin in region.args if begin not in inner]
        region.rets = [end for end in region.rets if not self._users.get(end) or not inner.issuperset(self._users[end])]

    def _place(self, node: RelayExpr) -> None:
        if isinstance(node, Call) and node.op.same_as(self._begin):
            self._new(node.attrs.compiler, node).args.append(node)
            return
        if isinstance(node, Call) and node.op.same_as(self._end):
            self._leave(node)
            return
        inside = [self._of[part] for part in children(node) if part in self._of and not self._is_end(part)]
        for other in inside[1:]:
            if self._regions.get(other.id) is other and other is not inside[0]:
                self._join(other, inside[0])
        if inside:
            self._add(node, inside[0])

    def _leave(self, end: Call) -> None:
        (value,) = end.args
        target = end.attrs.compiler
        # A value of nothing, such as zeros, needs no annotation to enter.
        region = None if self._is_end(value) else self._of.get(value)
        if region is None:
            region = self._new(target, value)
        if region.target != target:
            raise ModelError(f"a region for {target!r} begins as one for {region.target!r}")
        self._add(end, region)
        region.rets.append(end)

    def _is_end(self, node: RelayExpr) -> bool:
        return isinstance(node, Call) and node.op.same_as(self._end)

    def _new(self, target: str, first: RelayExpr) -> AnnotatedRegion:
        region = AnnotatedRegion(self._begun, target)
        self._begun += 1
        self._regions[region.id] = region
        self._add(first, region)
        return region

    def _add(self, node: RelayExpr, region: AnnotatedRegion) -> None:
        region.nodes.add(node)
        self._of[node] = region

    def _join(self, source: AnnotatedRegion, region: AnnotatedRegion) -> None:
        if source.target != region.target:
            raise ModelError(f"an expression uses values of regions for {region.target!r} and for {source.target!r}")
        region.nodes |= source.nodes
        self._of.update(dict.fromkeys(source.nodes, region))
        region.args += source.args
        region.rets += source.rets
        del self._regions[source.id]
