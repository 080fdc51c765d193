"""Products of many rows with one matrix keep their rows flat through the elementwise operators that follow them."""

from __future__ import annotations

from ..relay.ir import Call, Constant, Dim, Expr, Op, RelayExpr, TensorType, dims, is_call
from ..relay.op.registry import OpPattern, build, entry
from ..relay.transform.known_type import rewrite_typed
from ..relay.transform.registry import ModuleTransform, per_function, relay_pass

__all__ = ["FlattenRows", "is_elementwise"]

# Operators whose attributes mean the same for a matrix of rows as for a tensor of more axes.
_SAME_ATTRS = ("cast", "clip", "contrib_quantized", "contrib_rounded", "nn.leaky_relu", "nn.layer_norm")


@relay_pass(opt_level=1)
def FlattenRows() -> ModuleTransform:
    """Return the pass that moves reshapes of matrices below elementwise operators.

    A product of a tensor of several axes with a matrix is that of its rows as one matrix, under the old shape again.
    With the reshape moved down, a bias, an activation and a residual fuse into the product.
    """
    return per_function(lambda function: rewrite_typed(function, _moved))


def _moved(node: RelayExpr) -> RelayExpr:
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return node
    if node.op.name == "reshape":
        return _undone(node)
    if not is_elementwise(node) or not isinstance(node.checked_type, TensorType):
        return node
    shape = list(node.checked_type.shape)
    matrix = next((m for m in map(_matrix, node.args) if m is not None), None)
    if matrix is None or any(dims.is_any(d) for d in shape):
        return node
    rows = [row for arg in node.args if (row := _as_rows(arg, shape, matrix)) is not None]
    if len(rows) != len(node.args):
        return node
    return build("reshape", Call(node.op, rows, node.attrs, span=node.span), newshape=shape, allowzero=True)


def is_elementwise(node: Call) -> bool:
    """Say whether a call computes each element from the ones at its place, whatever the shape."""
    if node.op.name in _SAME_ATTRS:
        return getattr(node.attrs, "axis", -1) == -1
    return node.attrs is None and entry(node.op.name).pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST)


def _matrix(arg: Expr) -> list[Dim] | None:
    """Return the shape of the matrix whose rows a tensor of more axes has, if it is a reshape of one."""
    if not is_call(arg, "reshape"):
        return None
    have, shape = list(arg.args[0].checked_type.shape), list(arg.checked_type.shape)
    if len(have) != 2 or len(shape) < 3 or any(dims.is_any(d) for d in have):
        return None
    return have if dims.equal(have[1], shape[-1]) else None


def _as_rows(arg: Expr, shape: list[Dim], matrix: list[Dim]) -> Expr | None:
    """Return an argument as it stands beside the rows, or None where it does not go along with them."""
    ty = arg.checked_type
    if not isinstance(ty, TensorType):
        return None
    if len(ty.shape) <= 1:
        return arg if isinstance(arg, Constant) or len(ty.shape) == 0 or dims.equal(ty.shape[0], shape[-1]) else None
    if len(ty.shape) != len(shape) or not all(dims.equal(a, b) for a, b in zip(ty.shape, shape, strict=True)):
        return None
    have = _matrix(arg)
    if have is not None:
        return arg.args[0]
    return build("reshape", arg, newshape=matrix, allowzero=True)


def _undone(node: Call) -> Expr:
    """Return what was reshaped where a reshape undoes that, or the reshape as it is."""
    inner = node.args[0]
    if not is_call(inner, "reshape"):
        return node
    source, shape = inner.args[0], list(node.checked_type.shape)
    have = list(source.checked_type.shape)
    if len(have) == len(shape) and all(dims.equal(a, b) for a, b in zip(have, shape, strict=True)):
        return source
    return node
