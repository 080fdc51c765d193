"""What is computed from looked-up rows alone is computed from the table beforehand: embeddings, one-hot codes.

A row of a constant table, projected by a constant matrix, with a bias and an activation, is a row of another constant
table. A product with a one-hot code is a look-up to begin with.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from ..relay.ir import Call, Constant, Expr, Function, Op, RelayExpr, TensorType, Type, const, dims, is_call
from ..relay.op.registry import build
from ..relay.transform.fold_constant import GROWTH_BYTES
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..values.host_memory import as_array
from .constants import weight_constant
from .flatten_rows import is_elementwise

__all__ = ["FoldLookups"]

# What takes numbers of a few bits out of bytes: of one table there would be as many as a byte has numbers.
_UNPACKING = {"bitwise_and", "right_shift"}


@relay_pass(opt_level=1)
def FoldLookups(largest: int = 1 << 24) -> ModuleTransform:
    """Return the pass that moves elementwise operators and dense layers from looked-up rows to constant tables.

    Parameters
    ----------
    largest : int
        The most bytes that a new table may have.
    """

    def folded(function: Function) -> Function:
        tables: set[Expr] = set()
        return rewrite_typed(function, lambda node: _folded(node, tables, largest))

    return per_function(folded)


def _folded(node: RelayExpr, tables: set[Expr], largest: int) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op) and isinstance(node.checked_type, TensorType)):
        return node
    if any(dims.is_any(d) for d in node.checked_type.shape):
        return node
    if node.op.name == "reshape":
        table, index = _look_up(node.args[0], tables)
        return node if table is None else _reshaped(node, table, index)
    if node.op.name == "nn.dense":
        table, index = _projected(node, tables, largest)
    elif is_elementwise(node) and node.op.name not in _UNPACKING:
        table, index = _mapped(node, tables, largest)
    else:
        return node
    if table is None:
        return node
    tables.add(table)
    return build("take", table, index, axis=0)


def _look_up(expr: RelayExpr, tables: set[Expr]) -> tuple[Any, Any]:
    """Return the table and the index of rows looked up in a constant matrix; (None, None) for anything else."""
    if not is_call(expr, "take"):
        return None, None
    table, index = expr.args
    if not (isinstance(table, Constant) or table in tables) or len(table.checked_type.shape) != 2:
        return None, None
    attrs = expr.attrs
    # Rows that are counted around are the same ones in a table of as many rows, but need their mode.
    if attrs.axis not in (0, -2) or attrs.batch_dims != 0 or attrs.mode == "wrap":
        return None, None
    return table, index


def _reshaped(node: Call, table: Expr, index: Expr) -> Expr:
    """Return rows under another shape as rows looked up by an index of another shape."""
    shape = list(node.checked_type.shape)
    if not shape or not dims.equal(shape[-1], table.checked_type.shape[1]):
        return node
    place = build("reshape", index, newshape=shape[:-1], allowzero=True)
    return build("take", table, place, axis=0)


def _mapped(node: Call, tables: set[Expr], largest: int) -> tuple[Any, Any]:
    """Return the table and the index that an elementwise operator on looked-up rows comes to."""
    found = [_look_up(arg, tables) for arg in node.args]
    table, index = next(((t, i) for t, i in found if t is not None), (None, None))
    if table is None:
        return None, None
    rows, width = (int(d) for d in table.checked_type.shape)
    operands: list[Expr | None] = []
    for arg, (own, place) in zip(node.args, found, strict=True):
        if own is None:
            operands.append(_of_rows(arg, width, len(node.checked_type.shape)))
        else:
            is_along = place.same_as(index) and [int(d) for d in own.checked_type.shape] == [rows, width]
            operands.append(own if is_along else None)
    known = [operand for operand in operands if operand is not None]
    if len(known) != len(operands):
        return None, None
    result = Call(node.op, known, node.attrs, span=node.span)
    size = _bytes(type_of(result))
    # A table that grows more when it is folded stays to be computed, and that in each run.
    is_folded = size <= sum(_bytes(type_of(operand)) for operand in known) + GROWTH_BYTES
    return (result, index) if is_folded and size <= largest else (None, None)


def _of_rows(arg: Expr, width: int, rank: int) -> Expr | None:
    """Return a constant as it stands beside the rows of a table; None if it is not the same for every row."""
    if not isinstance(arg, Constant):
        return None
    shape = [int(d) for d in arg.checked_type.shape]
    if not shape:
        return arg
    if len(shape) > rank or shape[-1] not in (1, width) or any(d != 1 for d in shape[:-1]):
        return None
    return arg if len(shape) == 1 else build("reshape", arg, newshape=[shape[-1]])


def _bytes(ty: Type) -> int:
    return int(np.prod([int(d) for d in ty.shape])) * (tvm.DataType(ty.dtype).bits // 8)


def _wide(weight: Constant) -> np.ndarray:
    return as_array(weight.data).astype("float32", copy=False)


def _projected(node: Call, tables: set[Expr], largest: int) -> tuple[Any, Any]:
    """Return the table and the index that a dense layer of looked-up rows, or of one-hot codes, comes to."""
    data, weight = node.args
    types = (data.checked_type, weight.checked_type, node.checked_type)
    known = weight_constant(weight)
    if known is None or any(ty.dtype != "float32" for ty in types):
        return None, None
    units = int(weight.checked_type.shape[0])
    table, index = _look_up(data, tables)
    if table is not None:
        # The product is computed here: constants do not grow that much when they are folded.
        is_small = isinstance(table, Constant) and int(table.checked_type.shape[0]) * units * 4 <= largest
        return (_constant(as_array(table.data) @ _wide(known).T), index) if is_small else (None, None)
    ids, depth = _one_hot(data)
    if ids is None:
        return None, None
    if int(weight.checked_type.shape[1]) != depth or (depth + 1) * units * 4 > largest:
        return None, None
    matrix = _wide(known)
    # Nothing times infinity is not a number, which a look-up would leave out.
    if not np.isfinite(matrix).all():
        return None, None
    rows = np.concatenate([matrix.T, np.zeros((1, units), "float32")])
    flat = build("reshape", ids, newshape=list(node.checked_type.shape[:-1]), allowzero=True)
    dtype = ids.checked_type.dtype

    def number(value: int) -> Constant:
        return _constant(np.array(value, dtype))

    is_code = build("logical_and", build("greater_equal", flat, number(0)), build("less", flat, number(depth)))
    # A number without a code is all zeros: the row behind the last.
    return _constant(rows), build("where", is_code, flat, number(depth))


def _constant(value: np.ndarray) -> Constant:
    made = const(np.ascontiguousarray(value))
    type_of(made)
    return made


def _one_hot(expr: RelayExpr) -> tuple[Any, int]:
    """Return the numbers that one-hot codes stand for, and how many there are; (None, 0) for anything else."""
    while is_call(expr, "reshape"):
        inner = expr.args[0]
        if not dims.equal(inner.checked_type.shape[-1], expr.checked_type.shape[-1]):
            return None, 0
        expr = inner
    if not (isinstance(expr, Call) and isinstance(expr.op, Op)):
        return None, 0
    if expr.op.name == "one_hot":
        ids, on, off = expr.args
        is_last = expr.attrs.axis in (-1, len(ids.checked_type.shape))
        is_plain = _is_number(on, 1) and _is_number(off, 0) and isinstance(expr.attrs.depth, int)
        return (ids, int(expr.attrs.depth)) if is_last and is_plain else (None, 0)
    if expr.op.name != "cast":
        return None, 0
    equal = expr.args[0]
    if not is_call(equal, "equal"):
        return None, 0
    for ids, codes in (equal.args, reversed(equal.args)):
        if isinstance(codes, Constant) and _is_column(ids) and _counts(codes, len(ids.checked_type.shape)):
            return ids, int(codes.checked_type.shape[-1])
    return None, 0


def _is_number(expr: RelayExpr, value: int) -> bool:
    return isinstance(expr, Constant) and expr.data.numpy().size == 1 and float(expr.data.numpy().item()) == value


def _is_column(expr: RelayExpr) -> bool:
    ty = expr.checked_type
    return bool(ty.dtype.startswith("int") and len(ty.shape) > 0 and dims.equal(ty.shape[-1], 1))


def _counts(codes: Constant, rank: int) -> bool:
    """Say whether a constant counts from 0 along its last axis, the only one."""
    values = codes.data.numpy()
    if values.ndim == 0 or values.ndim > rank or values.size != values.shape[-1]:
        return False
    return bool(np.array_equal(values.reshape(-1), np.arange(values.size)))
