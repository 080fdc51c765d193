"""One kernel for all that differ in their sizes alone, which it is told by the shapes of its arguments.

Less is scheduled and built then, for kernels that know less. Those that move and map elements wait for memory, whatever
they know of sizes. Of sums and maxima those are shared that are over as many elements in all of them, as of windows.
Those that look up elements in tables, as of the trees of a forest, lose nothing by not knowing how long the tables are.
Sizes that are unknown anyway stay the names that they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import prod

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.tirx.buffer import is_buffer_var

from .._tvm import retyped
from ..kernels.builder import FEWEST_ELEMENTS, PARALLEL_SIZE, with_fields
from ..kernels.packed_product.encodings import MARK, mark_to_share
from ..relay.ir.dims import structural_key
from .kernel_uses import calls_in, only_called, with_kernels
from .views import only_reshapes

__all__ = ["share_kernels"]

_LONG = 64  # elements of a line, of which vectors are made whether their number is known or not
_OF_GROUP = (2, 4)  # inputs that an instruction takes at once
_SIZE = "int64"  # the data type of sizes, and of all that follows from them

Kernels = dict[ir.GlobalVar, tirx.PrimFunc]
Known = dict[tuple[int, ...], tirx.Expr]
"""What stands for a number, by what it is in each kernel of a family."""


def share_kernels(fewest: int = 2, maps_alone: bool = False) -> tvm.transform.Pass:
    """Return the pass that makes one of kernels that are equal but for their sizes.

    To be run when kernels are fused and not scheduled yet.

    Parameters
    ----------
    fewest : int
        How many kernels become one at least.
    maps_alone : bool
        Whether only those kernels are shared that lose no time by that: kernels that map elements to ones at their
        places, and differ in the length of lines alone, and those that differ in the length of tables alone.
    """

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return _shared(mod, fewest, maps_alone)

    return tvm.transform.module_pass(run, opt_level=0, name="ShareKernels")


def _shared(mod: tvm.IRModule, fewest: int, maps_alone: bool) -> tvm.IRModule:
    calls = [call for function in mod.functions.values() for call in calls_in(function)]
    inputs = {call.args[0]: len(call.args[1].fields) for call in calls}
    found = sorted(only_called(mod, calls), key=lambda each: each.name_hint) if len(calls) >= fewest else ()
    kinds = {gvar: _kind(mod[gvar], inputs[gvar], maps_alone) for gvar in found}
    kernels = {gvar: _with_mark_to_share(mod[gvar]) for gvar, kind in kinds.items() if kind is not None}
    families: dict[Hashable, dict[ir.GlobalVar, list[int]]] = {}
    for gvar, function in kernels.items() if len(kernels) >= fewest else ():
        skeleton, numbers = _apart(function)
        families.setdefault((structural_key(skeleton), kinds[gvar]), {})[gvar] = numbers
    made: Kernels = {}
    names: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for family in families.values():
        alike = {gvar: kernels[gvar] for gvar in family}
        kernel = _kernel_of(alike, list(family.values())) if len(family) >= fewest else None
        if kernel is not None:
            if all(map(_has_known_sizes, alike.values())):
                kernel = kernel.with_attr(FEWEST_ELEMENTS, min(map(_elements, alike.values())))
            made |= dict.fromkeys(family, kernel)
            names |= dict.fromkeys(family, retyped(ir.GlobalVar(next(iter(family)).name_hint), kernel.ty))
    return with_kernels(mod, made, names, lambda call: list(call.args[1].fields)) if made else mod


def _kind(kernel: tirx.PrimFunc, inputs: int, maps_alone: bool) -> Hashable | None:
    """Return what kernels that are shared have in common, beside their text without numbers; None if it is not."""
    if not maps_alone and (_has_known_sizes(kernel) or _is_without_weights(kernel)):
        return "any"
    if maps_alone and _is_map(kernel):
        return "map", _all_but_lines(kernel)
    return ("tables", _all_but_tables(kernel, inputs)) if _has_tables(kernel, inputs) else None


def _has_tables(kernel: tirx.PrimFunc, inputs: int) -> bool:
    """Say whether a kernel may have inputs whose length is no more than where they end, and has no schedule yet."""
    if kernel.attrs.get("tirx.is_scheduled", False) or not all(map(is_buffer_var, kernel.params)):
        return False
    lengths = [param.ty.shape[0] for param in kernel.params[:inputs] if len(param.ty.shape)]
    if not any(isinstance(length, tirx.IntImm) and int(length.value) > 1 for length in lengths):
        return False
    return not (any(MARK in block.annotations for block in _blocks(kernel)) or only_reshapes(kernel))


def _all_but_tables(kernel: tirx.PrimFunc, inputs: int) -> tuple[int | None, ...]:
    """Return the extents of a kernel's arguments but for the first ones of its inputs; None for symbols."""
    shapes = [list(param.ty.shape)[int(at < inputs) :] for at, param in enumerate(kernel.params)]
    return tuple(int(size.value) if isinstance(size, tirx.IntImm) else None for shape in shapes for size in shape)


def _is_map(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel computes long lines of elements of ones at their places, and all sizes are known."""
    if not _has_known_sizes(kernel) or _line(kernel) < _LONG:
        return False
    blocks = [block for block in _blocks(kernel) if len(block.iter_vars)]
    return bool(blocks) and all(map(_is_elementwise, blocks))


def _result(kernel: tirx.PrimFunc) -> list[int]:
    return [int(size.value) for size in kernel.params[-1].ty.shape]


def _line(kernel: tirx.PrimFunc) -> int:
    return next(iter(reversed(_result(kernel))), 1)


def _elements(kernel: tirx.PrimFunc) -> int:
    return prod(_result(kernel))


def _all_but_lines(kernel: tirx.PrimFunc) -> tuple[int | bool, ...]:
    """Return the extents of a kernel's arguments but for the last, and whether cores share the work."""
    outer = [int(size.value) for param in kernel.params for size in list(param.ty.shape)[:-1]]
    return *outer, _elements(kernel) >= PARALLEL_SIZE


def _is_elementwise(block: s_tir.SBlock) -> bool:
    """Say whether each element is made of ones at the same places along the last axes, or of the first there."""
    own = [axis.var for axis in block.iter_vars]

    def is_there(read: tirx.BufferRegion) -> bool:
        places = [
            region.min
            for region in read.region
            if isinstance(region.extent, tirx.IntImm) and int(region.extent.value) == 1
        ]
        pairs = zip(reversed(places), reversed(own), strict=False)
        return len(read.region) == len(places) <= len(own) and all(
            p.same_as(v) or isinstance(p, tirx.IntImm) for p, v in pairs
        )

    return isinstance(block.body, tirx.BufferStore) and all(map(is_there, block.reads))


def _has_known_sizes(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel is of tensors of known sizes, and has no schedule yet."""
    return _has_plain_sizes(kernel) and all(isinstance(size, tirx.IntImm) for size in _sizes(kernel))


def _is_without_weights(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel, of sizes that may be unknown, sums no products of tensors.

    Windows with weights go over images of unknown sizes by vectors of channels, whose number must be known.
    """
    return _has_plain_sizes(kernel) and all(len(b.reads) < 2 for b in _blocks(kernel) if _reduced(b))


def _reduced(block: s_tir.SBlock) -> list[tirx.Expr]:
    return [axis.dom.extent for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]


def _has_plain_sizes(kernel: tirx.PrimFunc) -> bool:
    """Say whether a kernel is of tensors whose sizes are numbers and names, and has no schedule yet."""
    if kernel.attrs.get("tirx.is_scheduled", False) or not all(map(is_buffer_var, kernel.params)):
        return False
    is_plain = all(isinstance(size, tirx.IntImm | ir.Var) for size in _sizes(kernel))
    # Of a reshape its sizes tell later passes that it is one.
    return is_plain and not only_reshapes(kernel)


def _sizes(kernel: tirx.PrimFunc) -> list[tirx.Expr]:
    return [size for param in kernel.params for size in param.ty.shape]


def _with_mark_to_share(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a kernel whose product with a packed weight is marked without sizes, if it may be written without."""

    def changed(block: s_tir.SBlock) -> s_tir.SBlock:
        mark = mark_to_share(str(block.annotations[MARK])) if MARK in block.annotations else None
        return block if mark is None else with_fields(block, annotations={**block.annotations, MARK: mark})

    return tvm_ffi.structural_map(kernel, (s_tir.SBlock, changed))


def _apart(kernel: tirx.PrimFunc) -> tuple[tirx.PrimFunc, list[int]]:
    """Return a kernel with 1 for each number that may follow from sizes, and those numbers in their order."""
    numbers: list[int] = []
    one = tirx.IntImm(_SIZE, 1)

    def note(number: tirx.IntImm) -> tirx.IntImm:
        if str(number.ty.dtype) != _SIZE:
            return number
        numbers.append(int(number.value))
        return one

    return tvm_ffi.structural_map(kernel, (tirx.IntImm, note)), numbers


def _kernel_of(family: Mapping[ir.GlobalVar, tirx.PrimFunc], numbers: Sequence[Sequence[int]]) -> tirx.PrimFunc | None:
    """Return the kernel of all in a family.

    None where numbers differ that are neither extents of arguments nor sums or halves of them, or extents of what is
    reduced.
    Products with packed weights have loops of their own, which are for any number of inputs in groups.
    """
    is_product = any(MARK in block.annotations for block in _blocks(next(iter(family.values()))))
    extents = zip(*(_extents(kernel) for kernel in family.values()), strict=True)
    places = list(zip(*numbers, strict=True))
    known: Known = {values: tirx.Var("s", _SIZE) for values in dict.fromkeys(extents) if _differ(values)}
    for values in sorted(filter(_differ, dict.fromkeys(places))):
        if values not in known:
            expr = _groups_of(values, known) if is_product else None
            expr = _sum_of(values, known) if expr is None else expr
            expr = _half_of(values, known) if expr is None else expr
            if expr is None:
                return None
            known[values] = expr
    left = iter(places)

    def put(number: tirx.IntImm) -> tirx.Expr:
        return known.get(next(left), number) if str(number.ty.dtype) == _SIZE else number

    made = tvm_ffi.structural_map(next(iter(family.values())), (tirx.IntImm, put))
    if not _reduces_known(made):
        return None
    return tirx.PrimFunc(made.params, made.body, made.ret_type, made.attrs)  # which has a type of its own then


def _reduces_known(kernel: tirx.PrimFunc) -> bool:
    """Say whether all axes that a kernel reduces, but for those of marked sums, are of known extent."""
    extents = [size for block in _blocks(kernel) if MARK not in block.annotations for size in _reduced(block)]
    return all(isinstance(size, tirx.IntImm) for size in extents)


def _blocks(kernel: tirx.PrimFunc) -> list[s_tir.SBlock]:
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(kernel.body, (s_tir.SBlock, found.append))
    return found


def _differ(values: tuple[int, ...]) -> bool:
    return len(set(values)) > 1


def _sum_of(values: tuple[int, ...], known: Known) -> tirx.Expr | None:
    """Return the sum that a number is in all kernels; None if it is none.

    Of two known ones, as where a part of joined tensors begins, or of one and a constant, as where padding does.
    """
    for first, expr in known.items():
        left = tuple(value - part for value, part in zip(values, first, strict=True))
        if not _differ(left):
            return expr + tirx.IntImm(_SIZE, left[0])
        if left in known:
            return expr + known[left]
    return None


def _half_of(values: tuple[int, ...], known: Known) -> tirx.Expr | None:
    """Return half of what a known number exceeds another by, as padding is that both sides have; None if it is not."""
    for second, subtrahend in known.items():
        first = tuple(2 * value + part for value, part in zip(values, second, strict=True))
        if first in known:
            return tirx.truncdiv(known[first] - subtrahend, tirx.IntImm(_SIZE, 2))
    return None


def _groups_of(values: tuple[int, ...], known: Known) -> tirx.Expr | None:
    """Return the groups of inputs that a number is in all kernels, if inputs are known; None if it is not that."""
    for count in _OF_GROUP:
        inputs = known.get(tuple(value * count for value in values))
        if inputs is not None:
            return tirx.truncdiv(inputs, tirx.IntImm(_SIZE, count))
    return None


def _extents(kernel: tirx.PrimFunc) -> list[int]:
    return [int(size.value) for param in kernel.params for size in param.ty.shape if isinstance(size, tirx.IntImm)]
