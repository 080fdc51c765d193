"""How TVM's TIR passes are run over kernels.

Kernels that users wrote, or TVM scheduled, go through TVM's own pipeline. Those that rules schedule and those that
:mod:`vmkit.kernels` writes out have no threads, pipelines or copies of memory in them, and the latter no blocks and
only memory of just the size that is used. TVM's passes for all these find nothing there, but some look for it with
proofs about every index, which take longer than LLVM does where sizes are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline

from ..kernels.builder import WRITTEN_OUT
from ..relax.kernel_groups.parts import parts_called
from ..relax.stack_buffers import keep_on_stack
from ..schedule.float_algebra import with_float_algebra
from ..schedule.rule import BY_RULE
from .bfloat16 import legalize_bfloat16, with_wide_values
from .hidden_names import hide_names, show_names
from .large_sizes import large_tensors
from .loop_places import compute_places_once
from .nonnegative_division import divide_nonnegative
from .opaque_names import with_opaque_names

__all__ = ["PIPELINE"]

PIPELINE = "vmkit"
"""The name of the pipeline by which kernels are built for processors."""

_ENTRY = "tirx.is_entry_func"

Functions = dict[tvm.ir.GlobalVar, tvm.ir.BaseFunc]


def _pipeline() -> tuple[Any, Any, Any]:
    lower_any, finalize_host, finalize_device = get_tir_pipeline("default")

    @tvm.transform.module_pass(opt_level=0, name="vmkit.LowerKernels")
    def lower(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        # Of a module with one function TVM takes that for the entry, so it must not see a part of them first.
        mod = tirx.transform.AnnotateEntryFunc()(mod)
        written: Functions = {}
        by_rule: Functions = {}
        others: Functions = {}
        for gvar, function in mod.functions.items():
            of_kind = written if WRITTEN_OUT in function.attrs else by_rule if BY_RULE in function.attrs else others
            of_kind[gvar] = with_wide_values(with_float_algebra(function))
        asked = {name for name in context.config if context.config[name]}
        passes = ((written, _of_loops(asked)), (by_rule, _of_blocks(asked)), (others, lower_any))
        made: Functions = {}
        for functions, lowered in passes:
            if functions:
                made |= dict(lowered(tvm.IRModule(functions, attrs=mod.attrs)).functions.items())
        entries = {gvar.name_hint for gvar, function in mod.functions.items() if _ENTRY in function.attrs}
        for gvar, function in made.items():
            if isinstance(function, tirx.PrimFunc):
                made[gvar] = function = with_opaque_names(function)
            if _ENTRY in function.attrs and gvar.name_hint not in entries:
                made[gvar] = function.without_attr(_ENTRY)
        return tvm.IRModule(made, attrs=mod.attrs)

    def finalize() -> tvm.transform.Pass:
        return tvm.transform.Sequential([parts_called, keep_on_stack, hide_names, finalize_host(), show_names])

    return lower, finalize, finalize_device


def _of_blocks(asked: set[str]) -> tvm.transform.Pass:
    """Return the passes for kernels that rules schedule, as far as the options that are on leave them in."""
    passes = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerInitBlock(),
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        _compact_stages,
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.StmtSimplify(),
        s_tir.transform.LowerOpaqueBlock(),
        *_to_vectors(asked, s_tir.transform.LoopPartition()),
        tirx.transform.RemoveNoOp(),  # parts of cut loops that LLVM does not see to be empty
        compute_places_once,
        divide_nonnegative,  # what is written out says itself how it divides
    ]
    return tvm.transform.Sequential([*passes, *_to_calls(asked)])


@tvm.transform.module_pass(opt_level=0, name="vmkit.CompactStages")
def _compact_stages(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
    """Have TVM make the memory of stages as small as the part that is used, where a stage is within loops.

    What stands before all loops is written and read whole. TVM joins the regions of all accesses to it nevertheless,
    one by one, and proves each time how the next one lies: minutes where a window that is copied element by element is
    written out. Where such a stage is read at a mirrored position, the size that it finds even has a loop's variable in
    it, before the loop. But it is this pass that refuses sizes which those behind it would cut off to 32 bits.
    """
    compacted = {
        gvar: function
        for gvar, function in mod.functions.items()
        if _has_stages_within_loops(function) or any(large_tensors(tvm.IRModule({gvar: function})))
    }
    if not compacted:
        return mod
    made = s_tir.transform.CompactBufferAllocation()(tvm.IRModule(compacted, attrs=mod.attrs))
    return tvm.IRModule({**mod.functions, **made.functions}, attrs=mod.attrs)


def _has_stages_within_loops(function: tvm.ir.BaseFunc) -> bool:
    return not isinstance(function, tirx.PrimFunc) or any(map(_allocates, _outer_loops(function.body)))


def _outer_loops(stmt: tirx.Stmt) -> Iterator[tirx.For | tirx.While]:
    """Return the loops of a kernel that are in no other, those of each way that it may go."""
    match stmt:
        case tirx.For() | tirx.While():
            yield stmt
        case s_tir.SBlockRealize():
            yield from _outer_loops(stmt.block.body)
        case tirx.SeqStmt():
            for part in stmt.seq:
                yield from _outer_loops(part)
        case tirx.IfThenElse():
            for way in (stmt.then_case, stmt.else_case):
                if way is not None:
                    yield from _outer_loops(way)
        case tirx.AttrStmt():
            yield from _outer_loops(stmt.body)


def _allocates(loop: tirx.For | tirx.While) -> bool:
    found: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(loop, (s_tir.SBlock, lambda block: found.append(block) if block.alloc_buffers else None))
    return bool(found)


def _of_loops(asked: set[str]) -> tvm.transform.Pass:
    """Return the passes for kernels that are written out."""
    passes = [
        s_tir.transform.CanonicalizeLoop(),
        s_tir.transform.LowerOpaqueBlock(),  # leaves out loops of one iteration, which are no vectors
    ]
    return tvm.transform.Sequential([*passes, *_to_vectors(asked), *_to_calls(asked)])


def _to_vectors(asked: set[str], *before: tvm.transform.Pass) -> list[tvm.transform.Pass]:
    """Return the passes from buffers of many axes to vectors in flat memory."""
    passes = [
        hide_names,
        tirx.transform.FlattenBuffer(),
        show_names,
        legalize_bfloat16,
        tirx.transform.NarrowDataType(32),
        *before,
        tirx.transform.VectorizeLoop("tirx.disable_vectorize" not in asked),
    ]
    if "tirx.disable_storage_rewrite" not in asked:
        passes.append(tirx.transform.StorageRewrite())
    return [*passes, tirx.transform.UnrollLoop(), tirx.transform.StmtSimplify()]


def _to_calls(asked: set[str]) -> list[tvm.transform.Pass]:
    """Return the passes to functions that the runtime calls.

    What is used twice LLVM computes once. Where TVM does that, it keeps values for longer than there are registers.
    """
    passes = [s_tir.transform.RewriteUnsafeSelect()]
    if "tirx.instrument_bound_checkers" in asked:
        passes.append(s_tir.transform.InstrumentBoundCheckers())
    if "tirx.instrument_lwp" in asked:
        passes.append(s_tir.transform.InstrumentProfileIntrinsics())
    return [
        *passes,
        tirx.transform.FP8ComputeLegalize(),
        tirx.transform.VerifyMemory(),
        tirx.transform.SplitHostDevice(),
        tirx.transform.MakePackedAPI(),
        tirx.transform.FP8StorageLegalize(),
        tirx.transform.BF16StorageLegalize(),
    ]


register_tir_pipeline(PIPELINE, _pipeline)
