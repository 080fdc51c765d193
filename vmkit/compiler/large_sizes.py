"""Sizes that TVM's compiler has no room for: its passes put some extents into 32 bits.

Not each kernel over 2^31 elements is concerned, so it is the failure that is looked at, and not the program before.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from math import prod
from typing import ParamSpec, TypeVar

import tvm
from tvm import ir, relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ..errors import CompileError, VMKitError
from ..relax.kernel_groups.parts import CALLS_PARTS
from ..relax.rewrite import bindings_of

__all__ = ["large_sizes_named", "large_tensors"]

P = ParamSpec("P")
T = TypeVar("T")

_LARGEST = (1 << 31) - 1
_SHOWN = 5  # kernels in an error
_OVERFLOW = re.compile(r"exceeds range of int(32|64)")  # what TVM says, in errors of no kind of their own


def large_sizes_named(
    module_of: Callable[..., tvm.IRModule | None],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for steps of the compiler: what fails for a size becomes an error that names operators.

    Parameters
    ----------
    module_of
        Returns the module that a step is about, from its arguments.
    """

    def decorated(step: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(step)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return step(*args, **kwargs)
            except (ValueError, RuntimeError) as error:
                overflow = _OVERFLOW.search(str(error))
                if overflow is None or isinstance(error, VMKitError):
                    raise
                raise CompileError(_problem(module_of(*args, **kwargs), overflow.group(1))) from error

        return run

    return decorated


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
