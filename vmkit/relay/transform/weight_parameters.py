"""Parameters that give way to others, which hold a weight in another form."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Function, RelayExpr, TensorType, Var, free_vars, is_call, rewrite

__all__ = ["sparse_parameters", "weight_name", "with_other_weights"]


def with_other_weights(function: Function, change: Callable[[RelayExpr], RelayExpr]) -> Function:
    """Return a function whose nodes have been changed, and whose parameters are the variables that it has then.

    Parameters that stay keep their order; new ones follow, in the order of their first use.
    """
    body = rewrite(function.body, {}, lambda node, _: change(node))
    if body.same_as(function.body):
        return function
    used = free_vars(body)
    kept = [p for p in function.params if any(p.same_as(u) for u in used) or not _was_used(function, p)]
    new = [u for u in used if not any(u.same_as(p) for p in function.params)]
    return Function([*kept, *new], body, None, list(function.type_params), function.attrs, function.span)


def _was_used(function: Function, param: Var) -> bool:
    return any(param.same_as(used) for used in free_vars(function.body))


def sparse_parameters(name: str, shape: list[int], dtype: str = "float32") -> list[Var]:
    """Return the parameters of a sparse weight (BSR): its blocks, their columns, and where rows begin.

    Parameters
    ----------
    name : str
        The name of the weight.
    shape : list of int
        The shape of the blocks' tensor, two or three sizes, and the numbers of columns and of row pointers.
    dtype : str
        The data type of the blocks.
    """
    *blocks, columns, rows = [int(n) for n in shape]
    types = [TensorType(blocks, dtype), TensorType([columns], "int32"), TensorType([rows], "int32")]
    return [Var(f"{name}.{part}", ty) for part, ty in zip(("data", "indices", "indptr"), types, strict=True)]


def weight_name(node: RelayExpr, operator: str) -> str:
    """Return the name of the variable that a call of an operator has as its weight; else an empty text."""
    return node.args[1].name_hint if is_call(node, operator) and isinstance(node.args[1], Var) else ""
