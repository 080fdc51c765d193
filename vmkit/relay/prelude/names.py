"""Names of what tensor arrays are made of, as Relay gave them; a name of a type tells its shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import tvm

from ...errors import InputError, TypeCheckError
from ..analysis.infer_type import infer_module
from ..ir import Any, Function, RelayExpr, TypeCall, free_vars, with_functions

if TYPE_CHECKING:
    from .prelude import Prelude

__all__ = ["get_tensor_array_shape", "ranked_name", "static_name"]


def ranked_name(canonical: str, dtype: str) -> str:
    """Return the name of a function, a constructor or (for ``tensor_t``) the type of tensors of any shape."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def static_name(
    canonical: str,
    dtype: str,
    shape: Sequence[AnyValue],
    batch_dim: int | None = None,
    extra_shapes: Mapping[str, Sequence[AnyValue]] | None = None,
) -> str:
    """Return the name of a function, a constructor or (for ``tensor_t``) the type of tensors of one shape.

    Parameters
    ----------
    canonical : str
        The name of the function or constructor without data type and shape.
    dtype : str
        The element type.
    shape : sequence of int or Any
        The shape.
    batch_dim : int, optional
        1 where what is stacked is one tensor.
    extra_shapes : mapping of str to sequence, optional
        Other shapes that a function is made for.
    """
    text = _shape_text(shape)
    for name, extra in (extra_shapes or {}).items():
        text += f"_{name}_{_shape_text(extra)}"
    text = text or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{text}_t"
    if batch_dim == 1 and canonical not in ("tensor_constructor", "tensor_nil"):
        return f"{canonical}_{dtype}_batch1_{text}"
    return f"{canonical}_{dtype}_{text}"


def _shape_text(shape: Sequence[AnyValue]) -> str:
    for dim in shape:
        if not isinstance(dim, int | Any | tvm.tirx.IntImm):
            raise InputError(f"a dimension of a tensor array's shape is an int or relay.Any(), not {dim}")
    return "_".join("any" if isinstance(dim, Any) else str(int(dim)) for dim in shape)


def get_tensor_array_shape(expr: RelayExpr, dtype: str, prelude: Prelude) -> tuple[AnyValue, ...] | None:
    """Return the shape of the tensors of a tensor array; None where they may be of any shape.

    Parameters
    ----------
    expr : Expr
        A tensor array.
    dtype : str
        The element type of the tensors.
    prelude : Prelude
        The prelude of the module that `expr` is for.

    Raises
    ------
    TypeCheckError
        When the expression is no tensor array.
    """
    mod = with_functions(prelude.mod)
    mod["main"] = Function(free_vars(expr), expr)
    ty = infer_module(mod)["main"].body.checked_type
    if not isinstance(ty, TypeCall) or ty.func.name_hint != "List" or not isinstance(ty.args[0], TypeCall):
        raise TypeCheckError(f"a tensor array is a List of tensor_t, but the expression has type {ty}")
    prefix, name = f"static_tensor_{dtype}_", ty.args[0].func.name_hint
    if not name.startswith(prefix):
        return None
    dims = name.removeprefix(prefix).removesuffix("_t").split("_")
    return () if dims == ["scalar"] else tuple(Any() if d == "any" else int(d) for d in dims)
