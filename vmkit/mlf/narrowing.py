"""Integers between kernels in as few bytes as their range needs: a quantised tensor less its zero point, for one.

The range of what a kernel writes is read off its expressions: that of the elements of 8 bits that they widen, changed
by known numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tvm
import tvm_ffi
from tvm import tirx

from .._tvm.nodes import TensorLoad
from .buffers import buffer_homes
from .constants import narrowest
from .kernels import Kernel
from .program import Kind, Memory, Program, item_bytes, plain_tensors, walk

__all__ = ["with_narrow_tensors"]

_WIDE = ("int16", "int32", "int64")
_READ = ("int8", "uint8", "int16", "uint16", "bool")

Range = tuple[int, int]


def with_narrow_tensors(program: Program, kernels: Mapping[str, Kernel]) -> dict[str, Kernel]:
    """Return kernels that keep tensors of the workspace in narrower types where ranges allow; memories get smaller.

    A memory is narrowed only if kernels alone touch it, all of them as one type.
    """
    ranges = {name: _written_ranges(kernel) for name, kernel in kernels.items()}
    chosen = _candidates(program, kernels, ranges)
    # A kernel that is called on several tensors has one type for each of its parameters.
    changed = True
    while changed:
        changed = False
        for name, kernel in kernels.items():
            own = [call for call in program.calls if call.kernel == name]
            for place in range(len(kernel.params)):
                memories = [call.args[place].memory.home for call in own]
                types = {chosen.get(memory) for memory in memories}
                if len(types) > 1:
                    for memory in memories:
                        changed |= chosen.pop(memory, None) is not None
    for memory, dtype in chosen.items():
        wide = next(t.dtype for call in program.calls for t in call.args if t.memory.home is memory)
        memory.size = memory.size // item_bytes(wide) * item_bytes(dtype)
        memory.alignment = item_bytes(dtype)
    return {name: _narrowed(kernel, program, chosen) for name, kernel in kernels.items()}


def _candidates(
    program: Program, kernels: Mapping[str, Kernel], ranges: Mapping[str, Mapping[int, Range]]
) -> dict[Memory, str]:
    """Return the memories that kernels alone touch, each as one type, with the narrower type for what they write."""
    written: dict[Memory, list[Range | None]] = {}
    types: dict[Memory, set[str]] = {}
    refused = {tensor.memory.home for each in walk(program.body) for tensor in plain_tensors(each)}
    for call in program.calls:
        for place, tensor in enumerate(call.args):
            memory = tensor.memory.home
            types.setdefault(memory, set()).add(tensor.dtype)
            if place in kernels[call.kernel].written:
                written.setdefault(memory, []).append(ranges[call.kernel].get(place))
    found = {}
    for memory, own in written.items():
        (dtype, *others) = types[memory]
        if memory.kind is not Kind.WORKSPACE or memory in refused or others or dtype not in _WIDE:
            continue
        known = [each for each in own if each is not None]
        if len(known) == len(own):
            narrow = narrowest(min(low for low, _ in known), max(high for _, high in known), item_bytes(dtype))
            if narrow is not None:
                found[memory] = narrow
    return found


def _narrowed(kernel: Kernel, program: Program, chosen: Mapping[Memory, str]) -> Kernel:
    call = next(call for call in program.calls if call.kernel == kernel.name)
    stored = dict(kernel.stored)
    for param, tensor in zip(kernel.params, call.args, strict=True):
        if tensor.memory.home in chosen:
            stored[param] = chosen[tensor.memory.home]
    return replace(kernel, stored=stored)


def _written_ranges(kernel: Kernel) -> dict[int, Range]:
    """Return the ranges of the integers that a kernel writes, by the place of the parameter; only those it just writes.

    What a kernel reads again is a sum that grows.
    """
    home = buffer_homes(kernel.body) | {param: param for param in kernel.params}
    loads: list[TensorLoad] = []
    stores: list[tirx.BufferStore] = []

    tvm_ffi.structural_walk(kernel.body, (TensorLoad, loads.append))
    tvm_ffi.structural_walk(kernel.body, (tirx.BufferStore, stores.append))
    known = {buffer: kernel.known[param] for buffer, param in home.items() if param in kernel.known}
    read = {home.get(load.source) for load in loads}
    found: dict[int, Range] = {}
    for place in kernel.written:
        param = kernel.params[place]
        own = [_range(s.value, known) for s in stores if home.get(s.buffer, s.buffer) == param]
        given = [each for each in own if each is not None]
        if param not in read and given and len(given) == len(own):
            found[place] = min(low for low, _ in given), max(high for _, high in given)
    return found


def _range(expr: tirx.Expr, known: Mapping[tvm.ir.Var, int | float]) -> Range | None:
    """Return the least and the largest integer that an expression can be; None where nothing is known."""
    match expr:
        case tirx.IntImm():
            return int(expr.value), int(expr.value)
        case TensorLoad() if expr.source in known:
            value = known[expr.source]
            return (value, value) if isinstance(value, int) else None
        case tirx.Cast() if str(expr.ty.dtype) in _WIDE:
            inner = _range(expr.value, known)
            limits = tirx.min_value(str(expr.ty.dtype)), tirx.max_value(str(expr.ty.dtype))
            fits = inner is not None and int(limits[0]) <= inner[0] and inner[1] <= int(limits[1])
            return inner if fits else None
        case tirx.Add() | tirx.Sub() | tirx.Min() | tirx.Max():
            return _of_two(expr, known)
        case tvm.ir.Call() if str(getattr(expr.op, "name", "")) == "prim.if_then_else":
            return _either(_range(expr.args[1], known), _range(expr.args[2], known))
        case tirx.Select():
            return _either(_range(expr.true_value, known), _range(expr.false_value, known))
    dtype = str(expr.ty.dtype)
    if dtype in _READ:
        return (0, 1) if dtype == "bool" else (int(tirx.min_value(dtype)), int(tirx.max_value(dtype)))
    return None


def _either(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _of_two(expr: tirx.Expr, known: Mapping[tvm.ir.Var, int | float]) -> Range | None:
    dtype = str(expr.ty.dtype)
    if not dtype.startswith("int") or dtype == "int8":
        return None
    a, b = _range(expr.a, known), _range(expr.b, known)
    if a is None or b is None:
        return None
    made = {
        tirx.Add: (a[0] + b[0], a[1] + b[1]),
        tirx.Sub: (a[0] - b[1], a[1] - b[0]),
        tirx.Min: (min(a[0], b[0]), min(a[1], b[1])),
        tirx.Max: (max(a[0], b[0]), max(a[1], b[1])),
    }[type(expr)]
    limits = int(tirx.min_value(dtype)), int(tirx.max_value(dtype))
    return made if limits[0] <= made[0] and made[1] <= limits[1] else None
