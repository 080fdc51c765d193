"""What was transposed for them products of matrices, and who asks for a shape, read as it was before."""

from __future__ import annotations

from collections.abc import Mapping

from ..relay.ir import Call, Expr, Op, RelayExpr, const, is_call
from ..relay.op.registry import build
from ..relay.transform.known_type import rewrite_used
from ..relay.transform.layout_rules import with_attrs
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass
from ..relay.transform.simplify.layouts import permutation
from .constants import weight_constant
from .pack_weights import MANY_UNITS

__all__ = ["FoldTransposes", "untransposed"]

_POOLS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
_TURNED = {"NCW": "NWC", "NCHW": "NHWC", "NCDHW": "NDHWC"}
_VECTOR = 16  # the least channels for which pools of some that come last are no slower than of some that come first
_PACKED = 4  # the least units that make a block of a packed weight, of which there are several


@relay_pass(opt_level=1)
def FoldTransposes() -> ModuleTransform:
    """Return the pass that takes transposes of matrices into the products that they are operands of.

    ONNX's ``MatMul`` of two inputs is imported as Relay did it, as ``nn.dense`` or ``nn.batch_matmul`` of a transposed
    operand, which a kernel for any order of axes need not have. And a tensor in another layout than the program's need
    not be copied into that for its shape. A pool over channels that come first, of a tensor in which they come last, is
    one over these where its result is turned back.
    """
    return per_function(lambda function: rewrite_used(function, _folded))


def _folded(node: RelayExpr, uses: Mapping[RelayExpr, int]) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    match node.op.name:
        case "shape_of":
            return _shape_before(node)
        case "transpose" | "layout_transform":
            return _pool_between(node, uses)
        case "nn.dense" if weight_constant(node.args[1]) and _is_packed(int(node.args[1].checked_type.shape[0])):
            return node  # its weight will be packed, which is worth more than the copy of the data
        case "nn.dense":
            is_swapped = (False, True)
        case "nn.matmul" | "nn.batch_matmul":
            is_swapped = (node.attrs.transpose_a, node.attrs.transpose_b)
        case _:
            return node
    sources = [untransposed(arg) for arg in node.args]
    if all(source is None for source in sources):
        return node
    operands = [arg if source is None else source for arg, source in zip(node.args, sources, strict=True)]
    a, b = (swap != (source is not None) for swap, source in zip(is_swapped, sources, strict=True))
    attrs = {"out_dtype": node.attrs.out_dtype, "transpose_a": a, "transpose_b": b}
    if node.op.name == "nn.batch_matmul":
        return build("nn.batch_matmul", *operands, **attrs)
    return build("nn.matmul", *operands, units=node.attrs.units, **attrs)


def _pool_between(node: Call, uses: Mapping[RelayExpr, int]) -> RelayExpr:
    """Return a pool between two transposes, which nothing else reads, as one of the tensor before the first."""
    pool = node.args[0]
    if not is_call(pool, *_POOLS) or uses.get(pool) != 1 or not is_call(pool.args[0], "transpose", "layout_transform"):
        return node
    first, second = permutation(pool.args[0]), permutation(node)
    rank = len(pool.args[0].checked_type.shape)
    if first != [0, rank - 1, *range(1, rank - 1)] or second != [0, *range(2, rank), 1]:
        return node
    source, layout = pool.args[0].args[0], pool.attrs.layout
    channels = source.checked_type.shape[-1]
    is_plain = layout in _TURNED and pool.attrs.out_layout in ("", layout)
    if not is_plain or not isinstance(channels, int) or channels < _VECTOR:
        return node
    return Call(pool.op, [source], with_attrs(pool, layout=_TURNED[layout], out_layout=""), span=pool.span)


def _is_packed(units: int) -> bool:
    """Say whether the weight of a dense layer of so many units will be packed."""
    return units % _PACKED == 0 or units >= MANY_UNITS


def _shape_before(shape: Call) -> Call:
    """Return the shape of a tensor with its axes in another order as that of the tensor, in another order."""
    moved = shape.args[0]
    axes = permutation(moved) if is_call(moved, "transpose", "layout_transform") else None
    if axes is None:
        return shape
    return build("take", build("shape_of", moved.args[0], dtype=shape.attrs.dtype), const(axes, "int64"), axis=0)


def untransposed(arg: Expr) -> Expr | None:
    """Return what an operand is the transpose of, its last two axes exchanged; None of any other."""
    if not is_call(arg, "transpose"):
        return None
    rank = len(arg.checked_type.shape)
    axes = list(arg.attrs.axes) if arg.attrs.axes else list(reversed(range(rank)))
    exchanged = [*range(rank - 2), rank - 1, rank - 2]
    is_exchange = rank >= 2 and [int(axis) % rank for axis in axes] == exchanged
    return arg.args[0] if is_exchange else None
