"""Runs programs that were scheduled for a GPU on the CPU: threads one after another.

What a schedule of blocks computes does not depend on which loops are bound to threads, so with plain loops in their
place the values of every kernel can be checked without a device.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

import vmkit
from vmkit import compiler, pipeline
from vmkit.executable import Executable
from vmkit.options import CompilerOptions
from vmkit.relay.lower import lower_module
from vmkit.relay.signature import relay_signatures
from vmkit.target import canonical_target

__all__ = ["TARGET", "machine", "scheduled"]

TARGET = canonical_target("cuda -arch=sm_80").primary


def scheduled(function: Any) -> tuple[tvm.IRModule, Any]:
    """Return a Relay function as Relax with its kernels scheduled for the GPU, and its lowered form."""
    options = CompilerOptions()
    mod = compiler._optimize_relay(compiler._relay_module(function), {}, TARGET, options)
    lowered = lower_module(mod, TARGET)
    return pipeline.optimize_relax(lowered.module, TARGET, options), (mod, lowered)


def machine(function: Any) -> vmkit.VirtualMachine:
    """Return a machine for the CPU of what was scheduled for the GPU."""
    module, (mod, lowered) = scheduled(function)
    plan = canonical_target("llvm")
    serial = {v: _serial(f) if isinstance(f, tirx.PrimFunc) else f for v, f in module.functions.items()}
    code = pipeline.generate_bytecode(tvm.IRModule(serial, attrs=module.attrs), plan.primary)
    signatures = {lowered.names[name]: signature for name, signature in relay_signatures(mod).items()}
    built = pipeline.link(code, plan.primary)
    return vmkit.VirtualMachine(Executable(built, signatures, plan.primary, {"checks": lowered.messages}), "cpu")


def _serial(function: tirx.PrimFunc) -> tirx.PrimFunc:
    def plain(loop: tirx.For) -> Any:
        # The step at which a loop of threads is unrolled, or vectorised, changes no value either.
        kind = tirx.ForKind.SERIAL
        return tirx.For(loop.loop_var, loop.min, loop.extent, kind, loop.body, None, {}, loop.step, loop.span)

    made = function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, plain)))
    schedule = s_tir.Schedule(made.with_attr("global_symbol", "main"), enable_check=False)
    for block in _blocks(made):
        for index, region in enumerate(block.writes):
            if str(region.source.scope()) not in ("", "global"):
                schedule.set_scope(schedule.get_sblock(block.name_hint), index, "global")
    result = schedule.mod["main"]
    kept = function.attrs.get("global_symbol")
    return result.with_attr("global_symbol", kept) if kept is not None else result.without_attr("global_symbol")


def _blocks(function: tirx.PrimFunc) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, found.append))
    return found
