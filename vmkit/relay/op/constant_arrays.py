"""What depends on constants alone, computed by numpy where it computes what kernels do.

Weights that are scaled, turned round and packed are hundreds of such expressions. A kernel for each would be compiled
to run once, which takes longer than everything else that a small network needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any, TypeAlias

import numpy as np

from ...values.host_memory import native_array, to_cpu_tensor
from ..ir import Call, Constant, Op, RelayExpr, Tuple, TupleGetItem, children, post_order
from .registry import entry

__all__ = ["with_known_values"]

Value: TypeAlias = "np.ndarray | tuple[Value, ...]"


def with_known_values(root: Tuple, most: float = inf) -> tuple[dict[RelayExpr, Constant], bool]:
    """Return the constants of those fields of a tuple that numpy computes, and of what others are computed from.

    Parameters
    ----------
    root : Tuple
        Expressions that depend on constants alone.
    most : float
        The bytes of constants after which no further ones are made.

    Returns
    -------
    dict, bool
        The constants, and whether all fields were looked at.
    """
    order = [node for node in post_order(root) if not node.same_as(root)]
    uses = Counter(child for node in order for child in _operands(node))
    wanted = set(root.fields)
    values: dict[RelayExpr, Value] = {}
    made: dict[RelayExpr, Constant] = {}
    size = 0
    for node in order:
        operands = _operands(node)
        found = _value(node, [values.get(each) for each in operands])
        # Where a kernel computes on with what numpy has computed, that is a constant.
        for each in operands if found is None else ():
            _make_constants(made, each, values.get(each))
        if node in wanted:
            _make_constants(made, node, found)
            wanted.discard(node)
            size += _bytes(found)
            if size >= most and wanted:
                return made, False
        if found is not None and uses[node]:
            values[node] = found
        for each in operands:
            uses[each] -= 1
            if not uses[each]:
                values.pop(each, None)  # weights are large
    return made, True


def _operands(node: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(node, Call):
        return list(node.args)
    return list(children(node))


def _make_constants(made: dict[RelayExpr, Constant], node: RelayExpr, value: Value | None) -> None:
    """Note the constant of a node with a value, or those of the fields of a tuple."""
    if isinstance(value, tuple):
        for field, part in zip(node.fields, value, strict=True):
            _make_constants(made, field, part)
    elif value is not None and node not in made and not isinstance(node, Constant):
        made[node] = Constant(to_cpu_tensor(value))


def _bytes(value: Value | None) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return 0 if value is None else value.nbytes


def _value(node: RelayExpr, operands: Sequence[Value | None]) -> Value | None:
    """Return the value of a node, given those of its operands; None where it is left to kernels."""
    if isinstance(node, Constant):
        return native_array(node.data)
    known: list[Any] = [each for each in operands if each is not None]
    if len(known) < len(operands):
        return None
    if isinstance(node, Tuple):
        return tuple(known)
    if isinstance(node, TupleGetItem):
        (whole,) = known
        return whole[node.index] if isinstance(whole, tuple) else None
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    on_arrays = entry(node.op).on_arrays
    value = None if on_arrays is None else on_arrays(node.attrs, *known)
    return None if value is None else np.asarray(value)  # numpy gives numbers for arrays without dimensions
