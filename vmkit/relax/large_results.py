"""Which functions of a module return so much that it matters where it lies."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import tvm
from tvm import ir, relax

__all__ = ["large_results"]

_LARGE = 128 << 10  # bytes: a good part of the caches of one core
_USUAL = 256  # elements along an axis whose size is known at run time only


def large_results(mod: tvm.IRModule) -> frozenset[str]:
    """Return the names of the functions that callers know whose results have many bytes, or are likely to."""
    functions = [(gvar, f) for gvar, f in mod.functions.items() if isinstance(f, relax.Function)]
    return frozenset(
        str(function.attrs.get("global_symbol", gvar.name_hint))
        for gvar, function in functions
        if sum(_bytes_in(function.ret_ty)) >= _LARGE
    )


def _bytes_in(ty: ir.Type) -> Iterator[int]:
    if isinstance(ty, relax.TupleType):
        for field in ty.fields:
            yield from _bytes_in(field)
    if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
        sizes = [int(size) if isinstance(size, tvm.tirx.IntImm) else _USUAL for size in ty.shape.values]
        yield prod(sizes) * -(-tvm.DataType(str(ty.dtype)).bits // 8)
