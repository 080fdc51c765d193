"""Sizes that TVM's compiler has no room for: its passes put some extents into 32 bits.

Not each kernel over 2^31 elements is concerned, so it is the failure that is looked at, and not the program before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import tvm
from tvm import ir, relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ..errors import CompileError
from ..relax.kernel_groups.parts import CALLS_PARTS
from ..relax.rewrite import bindings_of

__all__ = ["large_size_error", "large_tensors"]

_LARGEST = (1 << 31) - 1
_SHOWN = 5  # kernels in an error
_OVERFLOW = re.compile(r"exceeds range of int(32|64)")  # what TVM says, in errors of no kind of their own


def large_size_error(error: Exception, mod: tvm.IRModule | None) -> CompileError | None:
    """Return the error that names the operators of a module whose sizes a step failed for, None for another failure."""
    overflow = _OVERFLOW.search(str(error)) if isinstance(error, ValueError | RuntimeError) else None
    return None if overflow is None else CompileError(_problem(mod, overflow.group(1)))


def _problem(mod: tvm.IRModule | None, bits: str) -> str:
    found = list(dict.fromkeys(large_tensors(mod))) if mod is not None else []
    shown = "; ".join(found[:_SHOWN]) + (f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")
    return (
        f"a size does not fit into {bits} bits, in which the compiler counts it: {shown or 'of a kernel'}; "
        f"expected at most {_LARGEST} elements: split the tensor, or leave the dimension unknown"
    )


def large_tensors(mod: tvm.IRModule) -> Iterator[str]:
    """Yield the operators and kernels over tensors of 2^31 elements and more, with the first such tensor of each."""
    for gvar, function in mod.functions.items():
        if isinstance(function, tirx.PrimFunc) and CALLS_PARTS not in function.attrs:
            types = [param.ty for param in function.params if is_buffer_var(param)]
            yield from _named(gvar.name_hint, ((str(each.dtype), list(each.shape)) for each in types))
        elif isinstance(function, relax.Function):
            for binding in bindings_of(function.body):
                call = binding.value
                if isinstance(call, ir.Call) and isinstance(call.op, ir.Op):
                    yield from _named(str(call.op.name).removeprefix("relax."), _tensors(call))


def _tensors(call: ir.Call) -> Iterator[tuple[str, list[tirx.Expr]]]:
    for each in (call, *call.args):
        ty = getattr(each, "ty", None)
        if isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr):
            yield str(ty.dtype), list(ty.shape.values)


def _named(name: str, tensors: Iterator[tuple[str, list[tirx.Expr]]]) -> Iterator[str]:
    if name in _CALLS:
        return
    for dtype, dims in tensors:
        sizes = [int(dim.value) for dim in dims if isinstance(dim, tirx.IntImm)]
        if prod(sizes) > _LARGEST:
            yield f"{name} ({dtype}[{', '.join(map(_shown, dims))}])"
            return


_CALLS = ("call_tir", "call_dps_packed", "memory.alloc_storage", "memory.alloc_tensor", "builtin.alloc_tensor")


def _shown(dim: tirx.Expr) -> str:
    return str(int(dim.value)) if isinstance(dim, tirx.IntImm) else "?"
