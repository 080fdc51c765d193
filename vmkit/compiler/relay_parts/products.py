"""Products of matrices."""

from __future__ import annotations

from typing import Any

from tvm import ir

from ...relay.ir import Call, Dim, Expr, dims, is_call
from ...relay.op.registry import build
from .operands import Convert, Operands, shape_of

__all__ = ["PRODUCTS"]


def _product(call: ir.Call, args: list[Any], operands: Operands) -> Expr | None:
    if call.attrs.out_dtype not in (None, "", "float32"):
        return None
    a, b = args
    left, right = (operands.sizes(shape_of(arg)) for arg in call.args)
    if len(left) < 2 or len(right) < 2:
        return None
    if all(dims.equal(size, 1) for size in right[:-2]) and len(right) <= len(left):
        return _rows_by_matrix(a, b, left, right)
    return _stacks(a, b, left, right)


def _rows_by_matrix(a: Expr, b: Expr, left: list[Dim], right: list[Dim]) -> Expr:
    """Return the product with one matrix: all rows of the left factor are those of one matrix, too."""
    if len(right) > 2:
        b = build("reshape", b, right[-2:], allowzero=True)
    weight = b.args[0] if _is_transpose(b) else build("transpose", b, axes=[1, 0])
    if len(left) == 2:
        return build("nn.dense", a, weight)
    rows = build("reshape", a, [dims.product(left[:-1]), left[-1]], allowzero=True)
    return build("reshape", build("nn.dense", rows, weight), [*left[:-1], right[-1]], allowzero=True)


def _is_transpose(value: Expr) -> bool:
    return isinstance(value, Call) and is_call(value, "transpose") and list(value.attrs.axes or [1, 0]) == [1, 0]


def _stacks(a: Expr, b: Expr, left: list[Dim], right: list[Dim]) -> Expr | None:
    """Return the products of stacks of matrices, which are broadcast against each other."""
    rank = max(len(left), len(right))
    sizes: list[list[Dim]] = [[*[1] * (rank - len(shape)), *shape] for shape in (left, right)]
    stack = []
    for one, other in zip(sizes[0][:-2], sizes[1][:-2], strict=True):
        if not (dims.equal(one, other) or dims.equal(one, 1) or dims.equal(other, 1)):
            return None  # only the run knows
        stack.append(other if dims.equal(one, 1) else one)
    flat = []
    for value, shape in zip((a, b), sizes, strict=True):
        if not all(dims.equal(one, other) for one, other in zip(shape[:-2], stack, strict=True)):
            value = build("broadcast_to", value, [*stack, *shape[-2:]])
        flat.append(build("reshape", value, [dims.product(stack), *shape[-2:]], allowzero=True))
    made = build("nn.batch_matmul", *flat, transpose_b=False)
    return build("reshape", made, [*stack, left[-2], right[-1]], allowzero=True)


PRODUCTS: dict[str, Convert] = {"relax.matmul": _product}
