"""Kernels as loops over plain arrays, which a generator of C can write down: no blocks, no packed convention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target
from tvm.tirx.buffer import is_buffer_var

from .._dataclasses import dataclass
from .._tvm.nodes import TensorLoad
from ..errors import CompileError
from ..schedule.expressions import loads_in
from ..schedule.float_algebra import with_float_algebra
from ..schedule.scalar import schedule_for_scalars
from .buffers import buffer_homes, pointed_at
from .padding import without_padding_terms
from .sorting import with_sorts_written_out

__all__ = ["Kernel", "buffer_bytes", "lowered_kernel"]

_ON_STACK = 64
"""Bytes up to which a buffer of a kernel is a local array of it; larger ones lie in the workspace."""


@dataclass(frozen=True)
class Kernel:
    """A kernel without blocks and with flat buffers.

    Attributes
    ----------
    name : str
        Its name in the module.
    params : tuple of Var
        Its tensors, as buffers.
    body : Stmt
        What it does; the buffers of `locals` and `workspace` are allocated somewhere in it.
    written : frozenset of int
        The places of the parameters that it writes.
    workspace : tuple of Var
        Its own buffers that are too large for the stack, in their order.
    spans : tuple of (int, int)
        The first and the last of the kernel's steps that each of those is for.
    steps : int
        How many statements follow each other in the kernel.
    stored : mapping of Var to str
        The data types in memory of the parameters that are narrower there than in the kernel.
    known : mapping of Var to number
        The parameters of one element that is the same in all calls, which do not pass it.
    """

    name: str
    params: tuple[tvm.ir.Var, ...]
    body: tirx.Stmt
    written: frozenset[int]
    workspace: tuple[tvm.ir.Var, ...]
    spans: tuple[tuple[int, int], ...]
    steps: int
    stored: Mapping[tvm.ir.Var, str] = field(default_factory=dict)
    known: Mapping[tvm.ir.Var, int | float] = field(default_factory=dict)

    @property
    def workspace_sizes(self) -> tuple[int, ...]:
        """The bytes of each buffer of `workspace`."""
        return tuple(buffer_bytes(buffer) for buffer in self.workspace)

    @property
    def places(self) -> dict[tvm.ir.Var, int]:
        """The numbers that say how a parameter lies in memory, where it names them: without gaps, from its start."""
        found: dict[tvm.ir.Var, int] = {}
        for param in self.params:
            if isinstance(param.ty.elem_offset, tvm.ir.Var):
                found[param.ty.elem_offset] = 0
            stride = 1
            strides = list(param.ty.strides) if len(param.ty.strides) else [None] * len(param.ty.shape)
            for named, extent in zip(reversed(strides), reversed(list(param.ty.shape)), strict=True):
                if isinstance(named, tvm.ir.Var):
                    found[named] = stride
                stride *= int(extent)
        return found


def lowered_kernel(name: str, function: tirx.PrimFunc, target: Target, finite: frozenset[int] = frozenset()) -> Kernel:
    """Return a kernel as loops over plain arrays.

    Parameters
    ----------
    finite : frozenset of int
        The places of parameters that are finite numbers whenever the kernel is called.

    Raises
    ------
    CompileError
        When it takes numbers or sizes that are known at run time only.
    """
    for param in function.params:
        if not is_buffer_var(param):
            raise CompileError(f"kernel {name} takes the number {param.name}, which is known at run time only")
        if not all(isinstance(d, tirx.IntImm) for d in param.ty.shape):
            raise CompileError(f"kernel {name}: the sizes of {param.name} are known at run time only")
    is_scheduled = bool(function.attrs.get("tirx.is_scheduled", False))
    function = with_sorts_written_out(name, function)
    scheduled = function if is_scheduled else schedule_for_scalars(function)
    with target, tvm.transform.PassContext(config={"tirx.disable_vectorize": True}):
        mod = tvm.IRModule({name: with_float_algebra(scheduled, zeros=False).with_attr("target", target)})
        flat = tvm.transform.Sequential(_passes())(mod)[name]
        numbers = frozenset(param for place, param in enumerate(flat.params) if place in finite)
        mod = tvm.IRModule({name: flat.with_body(without_padding_terms(flat.body, numbers))})
        shared = tirx.transform.CommonSubexprElim()(mod)[name]
        mod = tvm.IRModule({name: shared.with_body(_with_quotients_called(shared.body))})
        lowered = tirx.transform.LowerIntrin()(mod)[name]
    buffers = _allocated(lowered.body)
    large = tuple(buffer for buffer in buffers if buffer_bytes(buffer) > _ON_STACK)
    steps = _steps(lowered.body)
    spans = tuple(_span(buffer, steps) for buffer in large)
    return Kernel(name, tuple(lowered.params), lowered.body, _written(lowered), large, spans, len(steps))


def _passes() -> list[tvm.transform.Pass]:
    """Return the passes of TVM's own pipeline that concern loops and buffers, without those of packed functions."""
    passes = s_tir.transform
    return [
        passes.CanonicalizeLoop(),
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.CompactBufferAllocation(),
        passes.LowerMatchBuffer(),
        passes.StmtSimplify(),
        passes.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        tirx.transform.VectorizeLoop(False),
        passes.HoistIfThenElse(),
        tirx.transform.UnrollLoop(),
        passes.RenormalizeSplitPattern(),
        tirx.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
        passes.RewriteUnsafeSelect(),
    ]


def _with_quotients_called(body: tirx.Stmt) -> tirx.Stmt:
    """Return a kernel in which floored quotients of elements are calls: TVM would write operands out several times."""

    def called(expr: tirx.FloorDiv | tirx.FloorMod) -> tirx.Expr:
        if not loads_in(expr) or str(expr.ty.dtype).startswith("float"):
            return expr
        name = "floordiv" if isinstance(expr, tirx.FloorDiv) else "floormod"
        return tirx.call_pure_extern(str(expr.ty.dtype), name, expr.a, expr.b)

    return tvm_ffi.structural_map(body, ((tirx.FloorDiv, tirx.FloorMod), called))


def _steps(body: tirx.Stmt) -> list[tirx.Stmt]:
    """Return the statements that follow each other in a kernel."""
    while isinstance(body, tirx.AttrStmt):
        body = body.body
    return list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]


def _span(buffer: tvm.ir.Var, steps: Sequence[tirx.Stmt]) -> tuple[int, int]:
    """Return the first and the last step that reads or writes a buffer."""
    homes = {buffer}
    for step in steps:
        declared: list[tirx.DeclBuffer] = []
        tvm_ffi.structural_walk(step, (tirx.DeclBuffer, declared.append))
        homes |= {each.buffer for each in declared if pointed_at(each.data) in homes}
    touching = []
    for place, step in enumerate(steps):
        used: set[tvm.ir.Var] = set()
        tvm_ffi.structural_walk(step, (TensorLoad, lambda load, used=used: used.add(load.source)))
        tvm_ffi.structural_walk(step, (tirx.BufferStore, lambda store, used=used: used.add(store.buffer)))
        touching += [place] if used & homes else []
    return (touching[0], touching[-1]) if touching else (0, 0)


def buffer_bytes(buffer: tvm.ir.Var) -> int:
    """Return the bytes of a buffer of known sizes."""
    dtype = tvm.DataType(str(buffer.ty.dtype))
    size = (dtype.bits * dtype.lanes + 7) // 8
    for extent in buffer.ty.shape:
        size *= int(extent)
    return size


def _allocated(body: tirx.Stmt) -> list[tvm.ir.Var]:
    found: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(body, (tirx.AllocBuffer, found.append))
    return list(dict.fromkeys(each.buffer for each in found))


def _written(function: tirx.PrimFunc) -> frozenset[int]:
    """Return the places of the parameters that a lowered kernel writes, by whatever buffer of their memory."""
    home = buffer_homes(function.body)
    stores: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append))
    stored = {each.buffer for each in stores}
    stored |= {home[buffer] for buffer in stored if buffer in home}
    return frozenset(place for place, param in enumerate(function.params) if param in stored)
