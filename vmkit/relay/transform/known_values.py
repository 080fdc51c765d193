"""What types and constants alone decide: sizes of static shapes, and which branch of an If is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..analysis.effects import effectful
from ..ir import Constant, Function, If, Let, RelayExpr, TensorType, Var, const, is_call, post_order, rewrite

__all__ = ["decided", "is_size", "taken_branch", "without_lets"]

_SIZES = {
    "shape_of": lambda shape: np.array(shape, "int64"),
    "vm.shape_of": lambda shape: np.array(shape, "int64"),
    "ndarray_size": lambda shape: np.array(np.prod(shape, dtype="int64")),
}


def decided(function: Function) -> Function:
    """Return a typed function with sizes of static shapes as constants, and one branch for an If on a constant.

    An input whose evaluation has an effect is kept.
    """
    nodes = list(post_order(function))
    if not any(isinstance(n, If) or is_size(n) for n in nodes):
        return function
    lasting = effectful(function)
    for local in (n for n in nodes if isinstance(n, Function) and not n.same_as(function)):
        lasting |= effectful(local)

    def decide(node: RelayExpr, original: RelayExpr) -> RelayExpr:
        if is_size(original) and original.args[0] not in lasting:
            value = _SIZES[original.op.name](original.args[0].checked_type.concrete_shape)
            ty = original.checked_type
            return const(value.reshape(ty.concrete_shape), ty.dtype)
        return taken_branch(node)

    return rewrite(function, {}, decide)


def taken_branch(node: RelayExpr) -> RelayExpr:
    """Return the branch that an If on a constant takes, and any other node as it is."""
    if not isinstance(node, If) or not isinstance(node.cond, Constant):
        return node
    return node.true_branch if bool(node.cond.data.numpy()) else node.false_branch


def without_lets(function: Function, values: Mapping[Var, RelayExpr]) -> Function:
    """Return a function without the Lets of some variables, the values in their places, in the order of evaluation."""
    known: dict[Any, Any] = {}
    for variable, value in values.items():
        known[variable] = rewrite(value, known)
    return rewrite(
        function,
        known,
        lambda node, original: node.body if isinstance(original, Let) and original.var in values else node,
    )


def is_size(node: RelayExpr) -> bool:
    """Say whether a node of a typed function is a size of a static shape."""
    if not is_call(node, *_SIZES):
        return False
    ty = node.args[0].checked_type
    return isinstance(ty, TensorType) and all(isinstance(d, int) for d in ty.shape)
