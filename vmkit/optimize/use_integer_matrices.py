"""Products of integers of 8 bits that are all known at run time only go to a kernel for groups of them."""

from __future__ import annotations

from ..relay.ir import Call, Expr, Op, RelayExpr
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_typed, type_of
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..target.integer_unit import VECTORS, IntegerUnit
from .float_products import numbers_of
from .fold_transposes import untransposed
from .integer_products import difference_of, known_integers, stored_as

__all__ = ["UseIntegerMatrices"]

_LEAST = 4  # columns that are worth vectors
_FEW = 4  # rows that do not repay the sums of all columns


@relay_pass(opt_level=1)
def UseIntegerMatrices(unit: IntegerUnit = VECTORS) -> ModuleTransform:
    """Return the pass that computes int32 products of two matrices of 8-bit integers that no constant is known of.

    Both may be less zero points. Where the target takes groups of uint8 with int8, and each operand has one zero point
    for all, they are read as they are, with ``x`` and ``y`` shifted to these types,

        sum((x - p) * (y - q)) = sum(x * y) - p * sum(y) - q * sum(x - p)

    Else the left operand goes to pairs of int16, less its zero points, which takes no time beside the product.

    Parameters
    ----------
    unit : IntegerUnit
        The instructions; every processor that has any takes pairs of int16.
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
    result = None if unit.group == 2 or unit.adds_pairs else _in_fours(left, right, unit)
    result = result or _in_pairs(left, right, unit)
    if result is None:
        return node
    return build("squeeze", result, axis=[0]) if rank == 2 else result


def _in_fours(left: Expr, right: Expr, unit: IntegerUnit) -> Expr | None:
    """Return a product of uint8 by int8; None where an operand is not 8-bit integers less one number."""
    one, other = difference_of(left), difference_of(right)
    if one is None or other is None:
        return None
    (x, p), (y, q) = stored_as(one, "uint8"), stored_as(other, "int8")
    rows = type_of(x).shape[-2]
    if p is not None and isinstance(rows, int) and rows < _FEW:
        return None
    x, y = _stack(x), _stack(y)
    result = build("nn.contrib_integer_matrices", x, y, lanes=unit.lanes)
    if p is not None:
        result = build("subtract", result, build("multiply", _sums(y, 1), p))
    if q is not None:
        numbers = build("cast", x, dtype="int32")
        less = numbers if p is None else build("subtract", numbers, p)
        sums = build("sum", less, axis=[2], keepdims=True)
        result = build("subtract", result, build("multiply", sums, q))
    return result


def _in_pairs(left: Expr, right: Expr, unit: IntegerUnit) -> Expr | None:
    """Return a product of int16 by 8-bit integers or int16; None where these do not hold an operand."""
    x, y = numbers_of(left, "int16"), _right(right)
    if x is None or y is None:
        return None
    data = _stack(x.real)
    integers, zero = y
    result = build("nn.contrib_integer_matrices", data, _stack(integers), lanes=unit.lanes)
    return result if zero is None else build("subtract", result, build("multiply", _sums(data, 2), zero))


def _sums(matrices: Expr, axis: int) -> Expr:
    return build("sum", build("cast", matrices, dtype="int32"), axis=[axis], keepdims=True)


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
