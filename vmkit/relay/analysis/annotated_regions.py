"""Regions of a program between annotations: what ``compiler_begin`` and ``compiler_end`` enclose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import ModelError
from ..ir import Call, GlobalVar, Op, RelayExpr, children, post_order

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
        # Users come before what they use, so that a region grows from its ends towards its beginnings.
        for node in reversed(list(post_order(expr))):
            self._place(node)

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self._regions.values())

    def get_region(self, expr: RelayExpr) -> AnnotatedRegion | None:
        """Return the region that an expression belongs to, or None."""
        return self._of.get(expr)

    def _place(self, node: RelayExpr) -> None:
        if isinstance(node, Call) and node.op.same_as(self._end):
            self._leave(node)
            return
        region = self._of.get(node)
        if isinstance(node, Call) and node.op.same_as(self._begin):
            if region is None:
                raise ModelError(f"a value enters a region for {node.attrs.compiler!r} that nothing leaves")
            if region.target != node.attrs.compiler:
                raise ModelError(f"a region for {region.target!r} begins as one for {node.attrs.compiler!r}")
            region.args.append(node)
        elif region is not None:
            for part in children(node):
                if not isinstance(part, Op | GlobalVar):
                    self._add(region, part)

    def _leave(self, end: Call) -> None:
        (value,) = end.args
        region = self._of.get(value)
        if region is None:
            region = AnnotatedRegion(max(self._regions, default=-1) + 1, end.attrs.compiler)
            self._regions[region.id] = region
            self._add(region, value)
        elif region.target != end.attrs.compiler:
            raise ModelError(f"a value of a region for {region.target!r} leaves one for {end.attrs.compiler!r}")
        self._add(region, end)
        region.rets.append(end)

    def _add(self, region: AnnotatedRegion, expr: RelayExpr) -> None:
        other = self._of.get(expr)
        if other is region:
            return
        if other is None:
            region.nodes.add(expr)
            self._of[expr] = region
        else:
            self._merge(other, region)

    def _merge(self, source: AnnotatedRegion, region: AnnotatedRegion) -> None:
        """Make one region a part of another; what left the one to enter the other stays inside."""
        region.nodes |= source.nodes
        self._of.update(dict.fromkeys(source.nodes, region))
        region.args += source.args
        region.rets += source.rets
        inner = [begin for begin in region.args if begin.args[0] in source.nodes]
        region.args = [begin for begin in region.args if begin not in inner]
        left = {begin.args[0] for begin in inner}
        region.rets = [end for end in region.rets if end not in left]
        del self._regions[source.id]
