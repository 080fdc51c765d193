"""The nodes of a graph, imported in their order; those that work on values of differing ranks, once for each way.

Where a node gives values of differing ranks, one of several *ways* is taken at run time. The nodes that read such a
value are imported for every way, all others once. The ways end where nothing that is still needed differs between them:
what they give becomes one decision of the program, whose branches hold all that was imported for each way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import onnx

from ..._dataclasses import dataclass
from ...errors import UnsupportedOperatorError
from ...relay.ir import Expr
from .check import reads
from .outcome import Fork, Outcome, equally_known, then
from .ranks import is_unranked, leaf_count, settled, ways
from .scope import Scope

__all__ = ["walk"]

_FEW_WAYS = 16  # more are made fewer where that can be, one for each rank that values have
_MOST_WAYS = 64

Node = Callable[[onnx.NodeProto, Scope], "list[Expr | None] | Fork"]


@dataclass(frozen=True)
class _Region:
    """Names whose values differ between ways; every list of the outcome has their values in order."""

    names: list[str]
    outcome: Outcome


def walk(nodes: Sequence[onnx.NodeProto], scope: Scope, outputs: Sequence[str], node: Node) -> Outcome:
    """Return the values of the outputs of a graph; `node` imports one of its nodes."""
    return _Walk(nodes, scope, outputs, node).run()


class _Walk:
    def __init__(self, nodes: Sequence[onnx.NodeProto], scope: Scope, outputs: Sequence[str], node: Node) -> None:
        self.nodes, self.scope, self.outputs, self.import_node = nodes, scope, outputs, node
        self.reads = [reads(n) for n in nodes]
        self.last_use = {name: at for at, names in enumerate(self.reads) for name in names}
        self.last_use.update(dict.fromkeys(outputs, len(nodes)))
        self.regions: list[_Region] = []

    def run(self) -> Outcome:
        for at, node in enumerate(self.nodes):
            self.open_unranked([*node.input])
            region = self.taken(self.reads[at])
            if region is not None:
                self.put(region.names, node, at, region.outcome)
                continue
            results = self.import_node(node, self.scope)
            if isinstance(results, Fork):
                self.settle_or_keep(_Region([*node.output], results))
            else:
                self.scope.define(node.output, results)
        return self.results()

    def put(self, names: list[str], node: onnx.NodeProto, at: int, outcome: Outcome) -> None:
        """Import a node for every way of a region."""
        live = [n for n in (*names, *node.output) if n and self.last_use.get(n, -1) > at]

        def step(values: list[Expr | None]) -> Outcome:
            way = Scope(self.scope, dict(zip(names, values, strict=False)))
            made = self.import_node(node, way)
            return then(made, partial(picked, way), equally_known)

        def picked(way: Scope, results: list[Expr | None]) -> Outcome:
            found = {**way.values, **dict(zip(node.output, results, strict=False))}
            return [found.get(name) for name in live]

        further = then(outcome, step, equally_known)
        if isinstance(further, list):
            self.scope.define(live, further)
        else:
            self.settle_or_keep(_Region(live, further))

    def open_unranked(self, names: Sequence[str]) -> None:
        """Make a region of each name whose value is of no known rank."""
        pending = {n for region in self.regions for n in region.names}
        for name in dict.fromkeys(names):
            value = self.scope.find(name) if name and name not in pending else None
            if is_unranked(value):
                assert value is not None
                self.regions.append(_Region([name], ways(value, name)))

    def taken(self, names: set[str]) -> _Region | None:
        """Return the regions that have some names as one, which is no longer kept; None if there is none."""
        touched = [r for r in self.regions if not names.isdisjoint(r.names)]
        if not touched:
            return None
        self.regions = [r for r in self.regions if r not in touched]
        count = 1
        for region in touched:
            count *= leaf_count(region.outcome)
        if count > _MOST_WAYS:
            raise UnsupportedOperatorError(
                f"what follows depends on the ranks of {', '.join(sorted(n for r in touched for n in r.names))}, which "
                f"make {count} ways of running the model, more than {_MOST_WAYS}; fix the dimensions that they depend "
                "on by shape="
            )
        whole, *others = touched
        for other in others:
            outcome = then(whole.outcome, partial(_with, other.outcome), _never)
            whole = _Region([*whole.names, *other.names], outcome)
        return whole

    def settle_or_keep(self, region: _Region) -> None:
        """Keep a region, or where it has many ways make its values unranked: their ranks are fewer."""
        if leaf_count(region.outcome) <= _FEW_WAYS:
            self.regions.append(region)
        else:
            self.scope.define(region.names, settled(region.outcome))

    def results(self) -> Outcome:
        wanted = {n for n in self.outputs if n}
        touched = [r for r in self.regions if not wanted.isdisjoint(r.names)]
        if len(touched) != 1:
            # Each by itself: their ways together would be many.
            for region in touched:
                self.scope.define(region.names, settled(region.outcome))
            return self.found(self.scope)
        (region,) = touched
        return then(
            region.outcome, lambda values: self.found(Scope(self.scope, dict(zip(region.names, values, strict=False))))
        )

    def found(self, scope: Scope) -> list[Expr | None]:
        return [scope.lookup(name) if name else None for name in self.outputs]


def _with(other: Outcome, values: list[Expr | None]) -> Outcome:
    """Return the ways of an outcome, each with values of another before its own."""
    return then(other, lambda more: [*values, *more], _never)


def _never(a: Expr, b: Expr) -> bool:
    """Say of two values that they stay apart."""
    return False
