"""Axes that lie beside each other in all that a map reads and writes as one axis: height and width of an image.

Tiles along an axis of 7 would be poor, and along 49 of them are good. The axes before the last one of such a group get
size 1 and the last one the size of all: an index beyond the end of its own dimension goes on in the next line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from ..._tvm import unchecked_schedule
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import with_fields
from ..blocks import Block, extent, is_reduction, kernel_blocks
from ..expressions import choices_in, known, loads_in, uses

__all__ = ["flattened", "flattened_rows", "flattened_steps"]


def flattened(sch: s_tir.Schedule) -> s_tir.Schedule:
    """Return the schedule of a kernel of one map over fewer axes that vary; the one given where there are none."""
    blocks = kernel_blocks(sch)
    if len(blocks) != 1 or is_reduction(sch, blocks[0]):
        return sch
    return _with_lines(sch, blocks[0], range(len(sch.get(blocks[0]).iter_vars) - 1))


def flattened_steps(sch: s_tir.Schedule, keep: int = 0) -> s_tir.Schedule:
    """Return the schedule of a kernel with one reduction over fewer axes that vary; the one given where there are none.

    So many first axes of the reduction stay as they are. What it reads are parameters of the kernel, whose memory is
    whole.
    """
    found = [block for block in kernel_blocks(sch) if is_reduction(sch, block)]
    if len(found) != 1:
        return sch
    node, given = sch.get(found[0]), sch.mod["main"].params
    written = node.writes[0].source
    read = [load.source for load in loads_in(node.body) if not load.source.same_as(written)]
    if not all(any(source.same_as(each) for each in given) for source in read):
        return sch
    steps = [at for at, v in enumerate(node.iter_vars) if v.iter_type == tirx.IterVar.CommReduce][keep:-1]
    return _with_lines(sch, found[0], steps)


def flattened_rows(sch: s_tir.Schedule, axes: int) -> s_tir.Schedule:
    """Return the schedule of a kernel of stages over rows of so many axes, the last of which are one.

    Stages along a row have these axes last, as steps or as those of what they make. What goes along a row has to be a
    parameter of the kernel: a stage's own result is kept for one row at a time, not as one line.
    """
    tried = (_with_rows(sch, count) for count in range(axes, 1, -1))
    return next((made for made in tried if made is not None), sch)


def _with_rows(sch: s_tir.Schedule, count: int) -> s_tir.Schedule | None:
    """Return the schedule of a kernel whose last so many axes are one in all stages along them; None where not."""
    blocks = kernel_blocks(sch)
    rank, made = len(sch.get(blocks[-1]).iter_vars), sch
    for at, block in enumerate(blocks):
        node = sch.get(block)
        if len(node.iter_vars) < rank and not is_reduction(sch, block):
            continue
        if not _is_along_given(node, [v.var for v in node.iter_vars[-count:]], sch.mod["main"].params):
            return None
        first = len(node.iter_vars) - count
        made = _with_lines(made, kernel_blocks(made)[at], range(first, first + count - 1))
        if any(extent(made, loop) != 1 for loop in made.get_loops(kernel_blocks(made)[at])[first:-1]):
            return None
    return made


def _is_along_given(node: s_tir.SBlock, axes: Sequence[tirx.Var], given: Sequence[tirx.Var]) -> bool:
    """Say whether all that depends on some axes of a block are parameters of the kernel."""
    regions = [region for region in (*node.reads, *node.writes)]
    along = [r.source for r in regions if any(uses(place.min, axis) for place in r.region for axis in axes)]
    return all(any(buffer.same_as(each) for each in given) for buffer in along)


def _with_lines(sch: s_tir.Schedule, block: Block, firsts: Iterable[int]) -> s_tir.Schedule:
    """Return the schedule of a kernel in which axes of a block are one with the next ones, where they are lines."""
    node, loops = sch.get(block), [sch.get(loop) for loop in sch.get_loops(block)]
    store, names = node.body, [v.var for v in node.iter_vars]
    if not isinstance(store, tirx.BufferStore) or len(loops) != len(names) or _chooses(store):
        return sch
    sizes = [known(loop.extent) for loop in loops]
    merged = list(sizes)
    for at in firsts:
        if _is_line(store, names[at : at + 2], sizes[at : at + 2]):
            merged[at], merged[at + 1] = 1, (merged[at] or 1) * (merged[at + 1] or 1)
    if merged == sizes:
        return sch
    function = sch.mod["main"]
    changed = {loop.loop_var: size for loop, size, old in zip(loops, merged, sizes, strict=True) if size != old}
    axes = {
        name: size for name, size, old in zip(names, merged, sizes, strict=True) if size is not None and size != old
    }

    def loop_of(loop: tirx.For) -> tirx.For:
        size = changed.get(loop.loop_var)
        if size is None:
            return loop
        extent = tirx.IntImm(str(loop.loop_var.ty.dtype), size)
        return tirx.For(loop.loop_var, loop.min, extent, loop.kind, loop.body, loop.thread_binding, loop.annotations)

    def block_of(block: s_tir.SBlock) -> s_tir.SBlock:
        return with_fields(block, iter_vars=[_resized(v, axes) for v in block.iter_vars])

    body = tvm_ffi.structural_map(function.body, ((tirx.For, loop_of), (s_tir.SBlock, block_of)))
    return unchecked_schedule(function.with_body(body))


def _resized(axis: tirx.IterVar, sizes: Mapping[tirx.Var, int]) -> tirx.IterVar:
    size = sizes.get(axis.var)
    if size is None:
        return axis
    return tirx.IterVar(tvm.ir.Range(axis.dom.min, tirx.IntImm(str(axis.var.ty.dtype), size)), axis.var, axis.iter_type)


def _is_line(store: tirx.BufferStore, pair: Sequence[tirx.Var], sizes: Sequence[int | None]) -> bool:
    """Say whether two axes lie beside each other, and go to their ends, in all that depends on one of them."""
    if None in sizes:
        return False

    def is_line(buffer: tirx.Buffer, indices: Sequence[tirx.Expr]) -> bool:
        shape = [known(size) for size in buffer.ty.shape]
        for at in range(len(indices) - 1):
            is_here = indices[at].same_as(pair[0]) and indices[at + 1].same_as(pair[1])
            if is_here and shape[at : at + 2] == list(sizes):
                return not any(uses(i, v) for i in (*indices[:at], *indices[at + 2 :]) for v in pair)
        return not any(uses(index, v) for index in indices for v in pair)

    def without(load: TensorLoad) -> tirx.Expr:
        return tirx.const(0, str(load.ty.dtype)) if is_line(load.source, load.indices) else load

    value = tvm_ffi.structural_map(store.value, (TensorLoad, without))
    return is_line(store.buffer, store.indices) and not any(uses(value, v) for v in pair)


def _chooses(store: tirx.BufferStore) -> bool:
    """Say whether elements choose what they read by their place: a test would not know what is in which line."""
    return bool(choices_in(store.value))
