"""Compilation for several devices at once: the program for the first one, and parts for the others.

Each is compiled as a program for one target is; their bytecode is joined at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import tvm
from tvm import relax
from tvm.target import Target

from .. import byoc, bytecode
from ..bytecode.joining import Part, joined_programs
from ..cache.kernels import Kernels
from ..errors import VMKitError
from ..executable.build_info import BuildInfo
from ..executable.executable import Parts
from ..relay import transform
from ..relay.ir import VirtualDevice
from ..relay.lower import Lowered, lower_module
from ..relay.lower.checks import RuntimeChecks
from ..relay.params import bind_params
from ..relay.signature import relay_signatures
from ..relay.transform.divide_by_device import DevicePart, divided, names_other_devices, require_default_device
from ..relay.transform.plan_devices import DeviceConfig
from ..target import TargetPlan
from ..target.device_types import numbered_name
from ..tophub.choosing import tally
from ..values.element_types import ELEMENTS
from .ahead import KernelsAhead
from .handed import Handed
from .options import CompilerOptions
from .pipeline import Bytecode, generate_bytecode, link, optimize_relax
from .stages import Program, ProgramPart, lower, optimize_relay, relay_module

__all__ = ["build", "lower_for_plan"]


def lower_for_plan(
    mod: Handed[tvm.IRModule],
    params: Mapping[str, tvm.runtime.Tensor],
    plan: TargetPlan,
    options: CompilerOptions,
    ahead: KernelsAhead | None = None,
) -> Program:
    """Return a Relay or Relax module as bytecode and kernels that are not built yet, for all targets of a plan.

    A program that places nothing on another device than the first is compiled for that alone. With a single target
    kernels may be built `ahead`.
    """
    mod.become(relay_module)
    if any(isinstance(f, relax.Function) for f in mod.value.functions.values()):
        return lower(mod, params, plan, options)
    if len(plan.targets) == 1:
        require_default_device(mod.value, VirtualDevice(*plan.devices[0]))
        return lower(mod, params, plan, options, ahead)
    config = DeviceConfig.of(plan)
    first = config.target_of(config.default)
    if not names_other_devices(mod.value, config.default):
        single = replace(plan, targets=(first,), numbers=())
        return replace(lower(mod, params, single, options), plan=plan)
    module = bind_params(mod.take(), params)
    for each in (transform.InferType(), transform.UnmanifestAlloc(), transform.LiftCalledFunctions()):
        module = each(module)
    module, parts = divided(module, config)
    checks = RuntimeChecks()
    # Copies are made by what runs on the first device, for which a module is lowered without a target.
    optimized = optimize_relay(Handed(module), {}, first, options)
    linked = byoc.link_functions(optimized, first)
    lowered = lower_module(optimized, None, linked.externals, checks)
    signatures = {lowered.names[n]: s for n, s in relay_signatures(optimized).items() if n in lowered.names}
    code, counts = _code(lowered, first, options, "")
    made, texts, kernel_groups = [], lowered.texts, dict(code.kernel_groups)
    for number, part in enumerate(parts):
        target = config.target_of(part.device)
        below = _lowered_part(part, target, checks, options)
        part_code, part_counts = _code(below, target, options, f"part{number}_")
        device = part.device.device_type, max(part.device.virtual_device_id, 0)
        made.append(ProgramPart(part.name, device, part_code, target))
        counts = {kind: counts.get(kind, 0) + count for kind, count in part_counts.items()}
        texts = texts if below.texts is None else [*dict.fromkeys([*(texts or ()), *below.texts])]
        kernel_groups.update(part_code.kernel_groups)
    kept = {name: found for name, found in signatures.items() if name not in _stand_ins(parts)}
    info = BuildInfo(
        checks=checks.messages,
        kernels=counts,
        alignment=ELEMENTS if all(t.kind.name == "llvm" for t in (first, *(p.target for p in made))) else None,
        texts=None if texts is None else tuple(texts),
        kernel_groups=kernel_groups or None,
        runtimes=linked.runtimes or None,
        devices=tuple(numbered_name(*device) for device in _devices(config, made)),
    )
    return Program(code, plan, first, kept, info, linked.modules, tuple(made))


def _stand_ins(parts: list[DevicePart]) -> set[str]:
    return {f"part{number}" for number in range(len(parts))}


def _devices(config: DeviceConfig, parts: list[ProgramPart]) -> list[tuple[int, int]]:
    """Return the devices of a program in the order of its machine's."""
    first = config.default.device_type, config.default.virtual_device_id
    return list(dict.fromkeys([first, *(part.device for part in parts)]))


def _lowered_part(part: DevicePart, target: Target, checks: RuntimeChecks, options: CompilerOptions) -> Lowered:
    try:
        return lower_module(
            optimize_relay(Handed(tvm.IRModule({"main": part.function})), {}, target, options), target, checks=checks
        )
    except VMKitError as error:
        raise type(error)(f"in what {part.device} computes: {error}") from error


def _code(lowered: Lowered, target: Target, options: CompilerOptions, prefix: str) -> tuple[Bytecode, dict[str, int]]:
    optimized = optimize_relax(lowered.module, target, options)
    code = generate_bytecode(optimized, target, options, prefix, is_alone=False)
    return code, dict(tally(optimized))


def build(program: Program, kept: Kernels | None = None) -> tvm.runtime.Module | Parts:
    """Return what the executable of a program is made of, its kernels built, or taken from those that are `kept`."""
    if any(part.target.kind.name != "llvm" for part in program.parts):
        kept = None  # libraries of several kinds are linked when they are exported, all or none
    built = link(program.code, program.target, program.modules, kept, in_objects=not program.parts)
    if not program.parts:
        return built
    first = _parts_of(built)
    names = list(program.info.devices or ())
    parts, libraries, files = [], list(first.libraries), list(first.files)
    for part in program.parts:
        made = _parts_of(link(part.code, part.target, (), kept))
        libraries += made.libraries
        files += made.files
        index = names.index(numbered_name(*part.device))
        parts.append(Part(part.name, made.program, index, part.device))
    return Parts(joined_programs(first.program, parts), tuple(libraries), tuple(files))


def _parts_of(built: tvm.runtime.Module | Parts) -> Parts:
    if isinstance(built, Parts):
        return built
    return Parts(bytecode.decode(bytecode.blob_of(built)), tuple(built.imports))
