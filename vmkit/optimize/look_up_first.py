"""Rows of a dequantised table are looked up as integers, and dequantised then: the table is larger than its rows."""

from __future__ import annotations

from ..relay.ir import Call, Constant, Expr, Op, RelayExpr, is_call
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["LookUpFirst"]


@relay_pass(opt_level=1)
def LookUpFirst() -> ModuleTransform:
    """Return the pass that moves casts of constant tables, and what is done with one number, behind their look-up."""
    return per_function(lambda function: rewrite_typed(function, _moved))


def _moved(node: RelayExpr) -> RelayExpr:
    if not is_call(node, "take"):
        return node
    # Without an axis, or with batches, elements are looked up and not rows; their places are the same all the same.
    table, index = node.args
    if isinstance(table, Constant) or not _is_mapped(table):
        return node
    return _mapped(table, node, index)


def _is_mapped(table: Expr) -> bool:
    """Say whether a table is a constant, element by element."""
    if isinstance(table, Constant):
        return True
    if not (isinstance(table, Call) and isinstance(table.op, Op)):
        return False
    if table.op.name == "cast":
        return _is_mapped(table.args[0])
    is_simple = table.op.name in ("subtract", "multiply") and not type_of(table.args[1]).shape
    return is_simple and _is_mapped(table.args[0])


def _mapped(table: Expr, look_up: Call, index: Expr) -> Expr:
    if isinstance(table, Constant):
        return Call(look_up.op, [table, index], look_up.attrs, span=look_up.span)
    rows = _mapped(table.args[0], look_up, index)
    type_of(rows)
    if table.op.name == "cast":
        return build("cast", rows, dtype=type_of(table).dtype)
    return build(table.op.name, rows, table.args[1])
