"""How TVM's TIR passes are run over kernels for a CPU.

TVM has one list of passes for all targets. Half of them are for the threads, the shared memory and the matrix units of
GPUs, and leave other kernels as they are, but each walks through all of a kernel: together with those whose work LLVM
does again they took half the time. Of a module of kernels that have nothing of the kind the passes below are run; all
others go TVM's way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline

from .._dataclasses import dataclass
from .kernel_groups.parts import parts_called
from .rewrite import with_functions
from .stack_buffers import keep_on_stack

__all__ = ["PIPELINE"]

PIPELINE = "vmkit"  # the name of TVM's pipeline as it is here

_SCOPES = ("", "global", "local")
_HINT = "pragma_loop_partition_hint"
# What takes from the passes that TVM runs, or adds some.
_OPTIONS = (
    "tirx.disable_storage_rewrite",
    "tirx.use_async_copy",
    "tirx.instrument_bound_checkers",
    "tirx.s_tir.ldg32",
    "tirx.disable_cse_tir",
    "tirx.instrument_lwp",
)


@dataclass
class _Contents:
    """What of a kernel decides on its passes.

    Attributes
    ----------
    is_plain : bool
        Whether it has nothing that one of the passes left out is for: threads, buffers of other scopes than memory and
        registers, parts of buffers in their place, attributes, and annotations but the hint to cut a loop.
    allocates : bool
        Whether a block has memory of its own, which is as large as the whole result at first.
    chooses : bool
        Whether there is a statement that depends on a condition.
    """

    is_plain: bool = True
    allocates: bool = False
    chooses: bool = False

    @classmethod
    def of(cls, function: tirx.PrimFunc) -> _Contents:
        """Return what there is in a kernel."""
        found = cls()
        tvm_ffi.structural_walk(
            function.body,
            [
                (tirx.For, found._loop),
                (s_tir.SBlock, found._block),
                (tirx.AllocBuffer, found._allocation),
                (tirx.AttrStmt, found._attribute),
                (tirx.IfThenElse, found._choice),
            ],
        )
        return found

    def _loop(self, node: tirx.For) -> None:
        is_thread = node.kind == tirx.ForKind.THREAD_BINDING
        self.is_plain &= not is_thread and all(key == _HINT for key in node.annotations)

    def _block(self, node: s_tir.SBlock) -> None:
        allocated = list(node.alloc_buffers)
        self.allocates |= bool(allocated)
        self.is_plain &= not node.annotations and not node.match_buffers and all(map(_is_of_cpu, allocated))

    def _allocation(self, node: tirx.AllocBuffer) -> None:
        self.is_plain &= not node.annotations and _is_of_cpu(node.buffer)

    def _attribute(self, _: tirx.AttrStmt) -> None:
        self.is_plain = False

    def _choice(self, _: tirx.IfThenElse) -> None:
        self.chooses = True


def _is_of_cpu(buffer: tirx.Buffer) -> bool:
    return str(buffer.ty.storage_scope) in _SCOPES


def _on(names: Collection[tvm.ir.GlobalVar], each: tvm.transform.Pass) -> tvm.transform.Pass:
    """Return a pass over some of a module's functions."""

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        some = {gvar: function for gvar, function in mod.functions.items() if gvar in names}
        return with_functions(mod, dict(each(tvm.IRModule(some)).functions.items())) if some else mod

    return tvm.transform.module_pass(run, opt_level=0, name=each.info.name)


def _short(contents: Mapping[tvm.ir.GlobalVar, _Contents]) -> tvm.transform.Pass:
    """Return the passes for plain kernels."""
    config = tvm.transform.PassContext.current().config
    allocating = {gvar for gvar, of in contents.items() if of.allocates}
    choosing = {gvar for gvar, of in contents.items() if of.chooses}
    return tvm.transform.Sequential(
        [
            s_tir.transform.CanonicalizeLoop(),
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            _on(allocating, s_tir.transform.CompactBufferAllocation()),
            s_tir.transform.StmtSimplify(),
            s_tir.transform.AnnotateIrregularLoop(),
            s_tir.transform.LowerOpaqueBlock(),
            tirx.transform.FlattenBuffer(),
            tirx.transform.BF16ComputeLegalize(),
            tirx.transform.NarrowDataType(32),
            s_tir.transform.LoopPartition(),
            tirx.transform.VectorizeLoop(not bool(config.get("tirx.disable_vectorize", False))),
            tirx.transform.StorageRewrite(),
            _on(choosing, s_tir.transform.HoistIfThenElse()),
            tirx.transform.UnrollLoop(),
            s_tir.transform.RenormalizeSplitPattern(),
            tirx.transform.StmtSimplify(),
            s_tir.transform.RewriteUnsafeSelect(),
            tirx.transform.CommonSubexprElim(),
            tirx.transform.FP8ComputeLegalize(),
            tirx.transform.VerifyMemory(),
            tirx.transform.AnnotateEntryFunc(),
            tirx.transform.SplitHostDevice(),  # gives what is bound twice, in one kernel or two, variables of its own
            tirx.transform.MakePackedAPI(),
            tirx.transform.FP8StorageLegalize(),
            tirx.transform.BF16StorageLegalize(),
        ]
    )


def _pipeline() -> tuple[Any, Any, Any]:
    whole, finalize_host, finalize_device = get_tir_pipeline("default")

    def lower(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        config = tvm.transform.PassContext.current().config
        if any(config.get(option) for option in _OPTIONS):
            return whole(mod)
        contents = {gvar: _Contents.of(f) for gvar, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
        is_short = len(contents) == len(mod.functions) and all(each.is_plain for each in contents.values())
        return (_short(contents) if is_short else whole)(mod)

    def finalize() -> tvm.transform.Pass:
        return tvm.transform.Sequential([parts_called, keep_on_stack, finalize_host()])

    return tvm.transform.module_pass(lower, opt_level=0, name="vmkit.LowerKernels"), finalize, finalize_device


register_tir_pipeline(PIPELINE, _pipeline)
