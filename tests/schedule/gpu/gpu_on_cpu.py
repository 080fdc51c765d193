"""Runs programs that were scheduled for a GPU on the CPU: threads one after another.

What a schedule of blocks computes does not depend on which loops are bound to threads, so with plain loops in their
place the values of every kernel can be checked without a device.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

import vmkit
from vmkit.compiler import pipeline
from vmkit.compiler.handed import Handed
from vmkit.compiler.options import CompilerOptions
from vmkit.compiler.stages import optimize_relay, relay_module
from vmkit.executable.build_info import BuildInfo
from vmkit.executable.executable import Executable
from vmkit.relay.lower import Lowered, lower_module
from vmkit.relay.signature import relay_signatures
from vmkit.target import canonical_target

__all__ = ["TARGET", "Scheduled", "machine", "scheduled"]

TARGET = canonical_target("cuda -arch=sm_80").primary


@dataclass(frozen=True)
class Scheduled:
    """A Relay function with its kernels scheduled for the GPU, before its memory is planned."""

    relay: tvm.IRModule
    lowered: Lowered
    module: tvm.IRModule

    @property
    def kernels(self) -> dict[str, tirx.PrimFunc]:
        """The kernels by name."""
        return {v.name_hint: f for v, f in self.module.functions.items() if isinstance(f, tirx.PrimFunc)}


def scheduled(function: Any, target: Target = TARGET) -> Scheduled:
    """Return a Relay function as Relax with its kernels scheduled for the GPU."""
    options = CompilerOptions()
    mod = optimize_relay(Handed(relay_module(function)), {}, target, options)
    lowered = lower_module(mod, target)
    return Scheduled(mod, lowered, pipeline.optimize_relax(lowered.module, target, options))


def machine(made: Scheduled) -> vmkit.VirtualMachine:
    """Return a machine for the CPU of what was scheduled for the GPU."""
    plan, names = canonical_target("llvm"), made.lowered.names
    serial = {v: _serial(f) if isinstance(f, tirx.PrimFunc) else f for v, f in made.module.functions.items()}
    code = pipeline.generate_bytecode(tvm.IRModule(serial, attrs=made.module.attrs), plan.primary, CompilerOptions())
    signatures = {names[name]: signature for name, signature in relay_signatures(made.relay).items()}
    info = BuildInfo(checks=made.lowered.messages)
    return vmkit.VirtualMachine(Executable(pipeline.link(code, plan.primary), signatures, plan.primary, info), "cpu")


def _serial(function: tirx.PrimFunc) -> tirx.PrimFunc:
    def plain(loop: tirx.For) -> Any:
        kind = tirx.ForKind.SERIAL
        return tirx.For(loop.loop_var, loop.min, loop.extent, kind, loop.body, None, {}, loop.step, loop.span)

    # A schedule finds blocks by their names, which dlight's rules give twice.
    names = (f"block{number}" for number in itertools.count())

    def named(block: s_tir.SBlock) -> Any:
        parts = (block.iter_vars, block.reads, block.writes, next(names), block.body, block.init)
        # Annotations are about shared memory and the steps of a pipeline through it.
        return s_tir.SBlock(*parts, block.alloc_buffers, block.match_buffers)

    made = function.with_body(tvm_ffi.structural_map(function.body, [(tirx.For, plain), (s_tir.SBlock, named)]))
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
