"""A region as the graph that the runtime reads: nodes of oneDNN's kinds, with what follows each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import CompileError
from ...relay.ir import Constant, RelayExpr, post_order
from ..region import Node, Region
from .operators import Taken, taken
from .patterns import After, group

__all__ = ["graph_of"]


def graph_of(region: Region) -> dict[str, Any]:
    """Return a region as JSON values.

    Its functions of Relay are nodes with a ``kind``, ``attrs``, and in ``after`` what is done to the result.
    """
    return _Writer(region).run()


class _Writer:
    """Writes nodes, and numbers the values that they need beside those of the region."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.count = len(region.values)
        self.nodes: list[dict[str, Any]] = []

    def run(self) -> dict[str, Any]:
        for node in self.region.nodes:
            if node.inner is not None:
                self.composite(node, node.inner)
            else:
                self.operator(node)
        return {
            "symbol": self.region.symbol,
            "values": [{} for _ in range(self.count)],
            "arguments": self.region.arguments,
            "constants": list(self.region.constants),
            "nodes": self.nodes,
            "outputs": list(self.region.outputs),
        }

    def add(self, made: Taken, inputs: list[int], outputs: list[int], after: list[dict[str, Any]]) -> None:
        row = {"kind": made.kind, "inputs": inputs, "outputs": outputs, "attrs": made.attrs, "after": after}
        self.nodes.append(row)

    def operator(self, node: Node) -> None:
        assert node.call is not None
        made = taken(node.call)
        if isinstance(made, str):
            raise CompileError(f"{self.region.symbol}: onednn does not take {node.op}: {made}")
        attrs, inputs = dict(made.attrs), list(node.inputs)
        along = attrs.pop("right_dims", None)
        if along is not None:  # what is added along an axis gets axes of one element after it
            self.add(Taken("reshape", {"dims": along}), [inputs[1]], [self.count], [])
            inputs[1], self.count = self.count, self.count + 1
        self.add(Taken(made.kind, attrs), inputs, list(node.outputs), [])

    def composite(self, node: Node, inner: Region) -> None:
        numbers = _numbers(node, inner)
        found = group(inner.function.body)
        if isinstance(found, str):
            raise CompileError(f"{self.region.symbol}: onednn does not take {node.op}: {found}")
        if found.call is None:
            assert found.source is not None
            act = found.after[0]
            attrs = {"function": act.op, "alpha": act.alpha, "beta": act.beta}
            self.add(Taken("elementwise", attrs), [numbers[found.source]], list(node.outputs), [])
            return
        inputs = [numbers[arg] for arg in found.call.args]
        after = [_after(each, numbers) for each in found.after]
        self.add(found.node, inputs, list(node.outputs), after)


def _numbers(node: Node, inner: Region) -> Mapping[RelayExpr, int]:
    """Return the numbers, in the region, of the parameters and constants of a composite function."""
    constants = [each for each in post_order(inner.function.body) if isinstance(each, Constant)]
    outer = dict(zip(inner.arguments, node.inputs, strict=True))
    keys = [*inner.function.params, *constants]
    return {key: outer[number] for key, number in zip(keys, inner.arguments, strict=True)}


def _after(each: After, numbers: Mapping[RelayExpr, int]) -> dict[str, Any]:
    operand = -1 if each.operand is None else numbers[each.operand]
    return {"op": each.op, "alpha": each.alpha, "beta": each.beta, "operand": operand}
