"""Join regions for the same code generator that follow each other."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..analysis.annotated_regions import AnnotatedRegion, AnnotatedRegionSet
from ..analysis.infer_type import typed
from ..analysis.scopes import scopes
from ..ir import Call, Constant, Constructor, Function, GlobalVar, Op, RelayExpr, Var, children, post_order, rewrite
from ..op.registry import entry
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["MergeCompilerRegions", "annotated_regions"]

Vertex: TypeAlias = AnnotatedRegion | RelayExpr

# What stands wherever it is used: no value has to be computed before it.
_FREE = (Constant, Constructor, GlobalVar, Op, Var)


@relay_pass(opt_level=0)
def MergeCompilerRegions() -> ModuleTransform:
    """Return the pass that makes one region of those for the same code generator that hand values to each other.

    Regions stay apart where one could then not run before or after all that stands between them, and where they
    stand in different branches or functions.
    """
    return lambda mod: on_functions(typed(mod), _merged)


def annotated_regions(function: Function) -> AnnotatedRegionSet:
    """Return the regions of a function between the annotations for code generators."""
    return AnnotatedRegionSet(function, entry("annotation.compiler_begin").op, entry("annotation.compiler_end").op)


def _merged(function: Function) -> Function:
    regions = annotated_regions(function)
    if not len(regions):
        return function
    _Merging(function, regions).run()

    def replace(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        region = regions.get_region(original)
        if region is None or not _is_begin(original) or regions.get_region(original.args[0]) is not region:
            return node
        # A value that leaves a region only to enter it again stays inside.
        end: Any = node.args[0]
        return end.args[0]

    return rewrite(function, {}, replace)


def _is_begin(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == "annotation.compiler_begin"


class _Merging:
    """The regions of a function as nodes of a graph, in which edges go from what uses a value to what computes it."""

    def __init__(self, function: Function, regions: AnnotatedRegionSet) -> None:
        self.regions = regions
        scope_of = scopes(function)
        # Only regions of the same scopes are merged, so that a region's stay what they are.
        self.scopes = {
            region: {scope_of[node] for node in region.nodes if not isinstance(node, _FREE)} for region in regions
        }
        self.nodes: list[RelayExpr] = [n for n in post_order(function) if not isinstance(n, _FREE)]

    def run(self) -> None:
        """Merge regions, each with those before it as soon as it is complete."""
        done: set[AnnotatedRegion] = set()
        for node in self.nodes:
            region = self.regions.get_region(node)
            if region is None or region in done or not any(node.same_as(end) for end in region.rets):
                continue
            for parent in self._parents(region):
                is_apart = parent.target != region.target or self.scopes[parent] != self.scopes[region]
                if not is_apart and not self._is_between(parent, region):
                    self.regions.merge(parent, region)
            done.add(region)

    def _parents(self, region: AnnotatedRegion) -> list[AnnotatedRegion]:
        found = [self.regions.get_region(begin.args[0]) for begin in region.args]
        return list(dict.fromkeys(each for each in found if each is not None and each is not region))

    def _is_between(self, parent: AnnotatedRegion, region: AnnotatedRegion) -> bool:
        """Say whether something outside of two regions uses the one and is used by the other."""
        seen: set[Any] = set()
        waiting = [each for each in self._used_by(region) if each is not parent]
        while waiting:
            each = waiting.pop()
            if each is parent:
                return True
            if each not in seen:
                seen.add(each)
                waiting += self._used_by(each)
        return False

    def _used_by(self, vertex: Vertex) -> list[Vertex]:
        """Return the regions, and expressions outside of any, whose values something uses directly."""
        match vertex:
            case AnnotatedRegion():
                parts = [begin.args[0] for begin in vertex.args]
            case _:
                parts = children(vertex)
        outside = [part for part in parts if not isinstance(part, _FREE)]
        return [self.regions.get_region(part) or part for part in outside]
