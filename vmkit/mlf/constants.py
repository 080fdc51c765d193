"""What kernels are told of constants: numbers that are the same in all calls, and integers that fit fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import tvm
from tvm import relax

from ..relax.aliases import is_call
from .kernels import Kernel
from .program import Call, Kind, Program

__all__ = ["finite_arguments", "narrowest", "with_constants"]

_NARROWER = ("int8", "uint8", "int16", "uint16", "int32")


def finite_arguments(mod: tvm.IRModule) -> dict[str, frozenset[int]]:
    """Return, for each kernel that a module of Relax calls, the places of arguments that are constants, all finite."""
    found: dict[str, frozenset[int]] = {}

    def seen(node: tvm.ir.Expr) -> None:
        if isinstance(node, tvm.ir.Call) and is_call(node, "relax.call_tir"):
            args = node.args[1].fields if isinstance(node.args[1], relax.Tuple) else [node.args[1]]
            own = frozenset(place for place, arg in enumerate(args) if _is_finite(arg))
            name = node.args[0].name_hint
            found[name] = found.get(name, own) & own

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function.body, seen)
    return found


def _is_finite(arg: tvm.ir.Expr) -> bool:
    if not isinstance(arg, tvm.ir.GenericConst):
        return False
    array = arg.value.numpy()
    return array.dtype.kind == "f" and bool(np.isfinite(array).all())


def with_constants(program: Program, kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Return the kernels that a program calls, in their order, with what is known of their constant arguments.

    A parameter that all calls give the same single number is no parameter. One that all calls give constants whose
    integers fit fewer bytes, as weights of 8 bits do that a program widens, is an array of such.
    """
    calls: dict[str, list[Call]] = {}
    for call in program.calls:
        calls.setdefault(call.kernel, []).append(call)
    return {name: _told(kernels[name], own, program) for name, own in calls.items()}


def _told(kernel: Kernel, calls: Sequence[Call], program: Program) -> Kernel:
    stored, known = {}, {}
    for place, param in enumerate(kernel.params):
        args = [call.args[place] for call in calls]
        if place in kernel.written or any(arg.memory.home.kind is not Kind.CONSTANT for arg in args):
            continue
        arrays = [program.constants[arg.memory.home.index] for arg in args]
        first, *others = arrays
        if first.size == 1 and all(each.tobytes() == first.tobytes() for each in others):
            known[param] = first.item()
        elif first.dtype.kind in "iu":
            narrow = _narrower(arrays)
            if narrow is not None:
                stored[param] = narrow
    return replace(kernel, stored=stored, known=known)


def _narrower(arrays: Sequence[np.ndarray]) -> str | None:
    """Return the smallest type that holds the integers of some arrays, None if that is their own."""
    if not all(array.size for array in arrays):
        return None
    least, most = min(int(a.min()) for a in arrays), max(int(a.max()) for a in arrays)
    return narrowest(least, most, arrays[0].dtype.itemsize)


def narrowest(least: int, most: int, size: int) -> str | None:
    """Return the data type of the fewest bytes that holds integers of a range; None if these are no fewer than `size`.

    >>> narrowest(-128, 127, 4), narrowest(0, 300, 2)
    ('int8', None)
    """
    for dtype in _NARROWER:
        limits = np.iinfo(dtype)
        if limits.min <= least and most <= limits.max:
            return dtype if limits.bits < size * 8 else None
    return None
