"""Several versions of one kernel in one function, of which the size of an axis chooses when the kernel is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

__all__ = ["by_size"]


def by_size(function: tirx.PrimFunc, size: Any, versions: Sequence[tuple[int, tirx.PrimFunc]]) -> tirx.PrimFunc:
    """Return a kernel that runs the first version whose least size is not above the size that there is.

    Parameters
    ----------
    function : PrimFunc
        The kernel that all versions were scheduled from.
    size : Expr
        The size that decides, over variables of the kernel's parameters. Where no version is for it, nothing runs.
    versions : sequence of (int, PrimFunc)
        The least size of each, and the version, in falling order of sizes.
    """
    body: tirx.Stmt = tirx.Evaluate(tirx.IntImm("int32", 0))
    for least, version in reversed(versions):
        one = tirx.IntImm(str(size.ty.dtype), least)
        body = tirx.IfThenElse(size >= one, _body_over(function, version), body)
    return function.with_body(body)


def _body_over(function: tirx.PrimFunc, version: tirx.PrimFunc) -> tirx.Stmt:
    """Return a version's body with definitions of its own, over the parameters of the function."""
    renewed = s_tir.renew_defs(version)
    same: dict[Any, Any] = {}
    for new, old in zip(renewed.params, function.params, strict=True):
        same[new] = old
        for a, b in zip(getattr(new.ty, "shape", ()), getattr(old.ty, "shape", ()), strict=True):
            if isinstance(a, tirx.Var):
                same[a] = b
    return tvm_ffi.structural_map(renewed.body, (tirx.Var, lambda var: same.get(var, var)))
