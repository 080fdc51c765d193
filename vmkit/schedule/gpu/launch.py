"""What a kernel launches on a GPU, and whether a block of threads can hold it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import field

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer
from tvm.target import Target

from ..._dataclasses import dataclass
from ...target.gpu import gpu_of
from ..expressions import loads_in

__all__ = ["Launch", "has_threads", "launch_problem", "launches", "lowered_body"]

_UNBOUNDED = 2**31

# Blocks with their buffers to plain loops, as the code generators get them, but for what only changes expressions.
_LOWERING = (
    s_tir.transform.CanonicalizeLoop(),
    s_tir.transform.LowerCrossThreadReduction(),
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.LiftThreadBinding(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerAutoCopy(),
    s_tir.transform.UnifyThreadBinding(),
    s_tir.transform.LowerMatchBuffer(),
    s_tir.transform.LowerOpaqueBlock(),
)


@dataclass
class Launch:
    """One launch of a kernel.

    Attributes
    ----------
    extents : dict of str to int or None
        How many there are at most of each thread tag, such as ``threadIdx.x``; None where nothing limits them.
    shared_bytes : int
        The shared memory of a block.
    unknown : list of str
        Buffers inside whose size is not known when the kernel is compiled.
    """

    extents: dict[str, int | None] = field(default_factory=dict)
    shared_bytes: int = 0
    unknown: list[str] = field(default_factory=list)

    @property
    def threads(self) -> int | None:
        """How many threads a block has at most; None where nothing limits them."""
        sizes = [extent for tag, extent in self.extents.items() if tag.startswith("threadIdx")]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)


def launch_problem(function: tirx.PrimFunc, target: Target) -> str | None:
    """Return why a scheduled kernel cannot be launched on a target; None if it can.

    Parameters
    ----------
    function : tirx.PrimFunc
        The kernel, with its loops bound to threads.
    target : Target
        Of a GPU: its ``max_num_threads`` and ``max_shared_memory_per_block`` are the limits.
    """
    try:
        body = lowered_body(function, target)
    except (RuntimeError, ValueError, TypeError) as error:
        return f"it cannot be lowered: {error}"
    if _touches_memory(body):
        return "it reads or writes the device's memory outside of its threads"
    found = list(launches(body))
    gpu = gpu_of(target)
    for launch in found:
        if launch.threads is None:
            return "the number of threads of a block is not known when it is compiled"
        if launch.threads > gpu.threads:
            return f"a block has {launch.threads} threads; the target has at most {gpu.threads}"
        if launch.shared_bytes > gpu.shared:
            return f"a block takes {launch.shared_bytes} bytes of shared memory; the target has {gpu.shared}"
        if launch.unknown:
            return f"the size of {launch.unknown[0]}, which threads keep, is not known when it is compiled"
    return None if found else "nothing of it is launched"


def has_threads(function: tirx.PrimFunc) -> bool:
    """Say whether a kernel was written with threads, as TVM's sorting routines are."""
    found: list[tirx.Stmt] = []
    tvm_ffi.structural_walk(
        function.body,
        [
            (tirx.AttrStmt, lambda node: found.append(node) if node.attr_key == "thread_extent" else None),
            (tirx.For, lambda node: found.append(node) if node.thread_binding is not None else None),
        ],
    )
    return bool(found)


def launches(body: tirx.Stmt) -> Iterator[Launch]:
    """Return the launches in a lowered kernel, in order."""
    for part in _outside(body):
        if _opens_launch(part):
            yield _launch(part)


def lowered_body(function: tirx.PrimFunc, target: Target) -> tirx.Stmt:
    """Return the body of a scheduled kernel with its blocks made plain loops, as far as launches show."""
    mod = tvm.IRModule({"main": function.with_attr("target", target).with_attr("global_symbol", "main")})
    with target:
        for each in _LOWERING:
            mod = each(mod)
    return mod["main"].body


def _opens_launch(stmt: tirx.Stmt) -> bool:
    return isinstance(stmt, tirx.AttrStmt) and stmt.attr_key == "thread_extent"


def _outside(stmt: tirx.Stmt) -> Iterator[tirx.Stmt]:
    """Return the statements that the host runs; a launch is one of them."""
    yield stmt
    if _opens_launch(stmt):
        return
    inner: list[tirx.Stmt] = []
    match stmt:
        case tirx.SeqStmt():
            inner = list(stmt.seq)
        case tirx.For() | tirx.While() | tirx.AttrStmt():
            inner = [stmt.body]
        case tirx.IfThenElse():
            inner = [s for s in (stmt.then_case, stmt.else_case) if s is not None]
    for each in inner:
        yield from _outside(each)


def _touches_memory(body: tirx.Stmt) -> bool:
    for part in _outside(body):
        match part:
            case tirx.AttrStmt() if _opens_launch(part):
                expressions = [part.value]
            case tirx.For():
                expressions = [part.min, part.extent]
            case tirx.IfThenElse() | tirx.While():
                expressions = [part.condition]
            case tirx.SeqStmt() | tirx.AttrStmt() | tirx.AllocBuffer() | tirx.DeclBuffer():
                expressions = []
            case tirx.BufferStore():
                return True
            case _:
                expressions = [part.value]
        if any(loads_in(e) for e in expressions):
            return True
    return False


def _launch(stmt: tirx.AttrStmt) -> Launch:
    launch = Launch()

    def thread(node: tirx.AttrStmt) -> None:
        if node.attr_key == "thread_extent":
            most = int(Analyzer().const_int_bound(node.value).max_value)
            launch.extents[str(node.node.thread_tag)] = most if most < _UNBOUNDED else None

    def memory(node: tirx.AllocBuffer) -> None:
        buffer = node.buffer
        sizes = [int(d) if isinstance(d, tirx.IntImm) else None for d in buffer.shape]
        if None in sizes:
            launch.unknown.append(str(buffer.name))
        elif str(buffer.scope()).startswith("shared"):
            bits = tvm.DataType(str(buffer.dtype)).bits
            launch.shared_bytes += math.prod(s for s in sizes if s is not None) * max(bits, 8) // 8

    tvm_ffi.structural_walk(stmt, [(tirx.AttrStmt, thread), (tirx.AllocBuffer, memory)])
    return launch
