"""Products of integers of 8 bits that are all known at run time only go to a kernel for pairs of int16."""

from __future__ import annotations

from ..relay.ir import Call, Expr, Op, RelayExpr
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..target.integer_unit import VECTORS, IntegerUnit
from .float_products import numbers_of
from .fold_transposes import untransposed
from .integer_products import difference_of, known_integers

__all__ = ["UseIntegerMatrices"]

_LEAST = 4  # columns that are worth vectors


@relay_pass(opt_level=1)
def UseIntegerMatrices(unit: IntegerUnit = VECTORS) -> ModuleTransform:
    """Return the pass that computes int32 products of two matrices of 8-bit integers that no constant is known of.

    Both may be less zero points. Those of the left operand are subtracted before, which takes no time beside the
    product; the right operand is read as it is, with ``x`` less its own,

        sum(x * (y - zero)) = sum(x * y) - zero * sum(x)

    where it has one for all, and is subtracted from before where it has several.

    Parameters
    ----------
    unit : IntegerUnit
        The instructions, which take pairs of int16 on every processor that has any.
    """
    return per_function(lambda function: rewrite_typed(function, lambda node: _chosen(node, unit)))


def _chosen(node: RelayExpr, unit: IntegerUnit) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    match node.op.name:
        case "nn.dense":
            are_turned = (False, True)
        case "nn.matmul" | "nn.batch_matmul":
            are_turned = (node.attrs.transpose_a, node.attrs.transpose_b)
        case _:
            return node
    if type_of(node).dtype != "int32":
        return node
    rank, columns = len(type_of(node).shape), type_of(node).shape[-1]
    if rank > 3 or (isinstance(columns, int) and columns < _LEAST) or known_integers(node.args[1]) is not None:
        return node
    left, right = (_in_order(arg, is_turned) for arg, is_turned in zip(node.args, are_turned, strict=True))
    x, y = numbers_of(left, "int16"), _right(right)
    if x is None or y is None:
        return node
    data = _stack(x.real)
    integers, zero = y
    result = build("nn.contrib_integer_matrices", data, _stack(integers), lanes=unit.lanes)
    if zero is not None:
        sums = build("sum", build("cast", data, dtype="int32"), axis=[2], keepdims=True)
        result = build("subtract", result, build("multiply", sums, zero))
    return build("squeeze", result, axis=[0]) if rank == 2 else result


def _in_order(operand: Expr, is_turned: bool) -> Expr:
    """Return an operand that is transposed if the product says so as it is without that."""
    if not is_turned:
        return operand
    source = untransposed(operand)
    if source is not None:
        return source
    rank = len(type_of(operand).shape)
    turned = build("transpose", operand, axes=[*range(rank - 2), rank - 1, rank - 2])
    type_of(turned)
    return turned


def _right(operand: Expr) -> tuple[Expr, Expr | None] | None:
    """Return integers that a kernel reads, and the int32 to be subtracted from each of them; None for no such ones."""
    found = difference_of(operand)
    if found is not None:
        return found.integers, None if found.zero is None else build("cast", found.zero, dtype="int32")
    numbers = numbers_of(operand, "int16")
    return None if numbers is None else (numbers.real, None)


def _stack(matrices: Expr) -> Expr:
    """Return matrices as a stack of them."""
    return matrices if len(type_of(matrices).shape) == 3 else build("expand_dims", matrices, axis=0)
