"""Fake quantised regions: what lies between dequantizations and one expression."""

from __future__ import annotations

from ...ir import Call, Constant, Op, RelayExpr, Tuple, TupleGetItem, is_call

__all__ = ["region_below"]


def region_below(end: Call) -> list[RelayExpr] | None:
    """Return the expressions from dequantizations to a call, each after its parts; None where there is no such region.

    What lies below a dequantization does not belong to it, nor do the scale and zero point of a quantisation. A region
    has calls of operators, tuples and constants alone, and at least one dequantization.
    """
    order: list[RelayExpr] = []
    seen: set[RelayExpr] = set()
    waiting: list[tuple[RelayExpr, bool]] = [(end, False)]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            order.append(node)
        elif node not in seen:
            parts = _parts(node)
            if parts is None:
                return None
            seen.add(node)
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed(parts)]
    return order if any(is_call(node, "qnn.dequantize") for node in order) else None


def _parts(node: RelayExpr) -> list[RelayExpr] | None:
    match node:
        case Constant():
            return []
        case Tuple():
            return list(node.fields)
        case TupleGetItem():
            return [node.tuple_value]
        case Call(op=Op()):
            if node.op.name == "qnn.dequantize":
                return []
            return list(node.args)[:1] if node.op.name == "qnn.quantize" else list(node.args)
    return None
