"""The stages of compilation: a module is optimised, lowered to Relax and made bytecode.

Each is a function of the module, of what to compile for, and of the options that the caller entered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import tvm
from tvm import relax
from tvm.target import Target

from .. import byoc, tophub
from .._dataclasses import dataclass
from ..errors import CompileMemoryError, ModelError
from ..executable.build_info import BuildInfo
from ..executable.executable import Executable
from ..relax.agreement import with_agreed_sizes
from ..relax.bounds import with_checked_bounds
from ..relax.constant_transposes import with_transposed_constants
from ..relay import transform
from ..relay.ir import Function, places
from ..relay.ir.lifetime import end_unused_nodes, nodes_end
from ..relay.lower import Lowered, lower_module
from ..relay.lower.checks import RuntimeChecks
from ..relay.lower.repeated_kernels import Tell
from ..relay.params import bind_params
from ..relay.pass_options import FILL_SPAN
from ..relay.signature import relax_signatures, relay_signatures
from ..relay.transform.fold_constant import is_partly_folded
from ..relay.transform.kept_places import with_kept_places
from ..runtime.machine import VirtualMachine
from ..stack import on_deep_stack
from ..target import TargetPlan, canonical_target
from ..tophub.choosing import tally
from ..values.conversion import StoredTensor
from ..values.element_types import ELEMENTS
from ..values.host_memory import return_free_memory
from ..values.signature import Signature
from ..values.tensors import as_tensors
from .ahead import KernelsAhead
from .garbage import old_objects_left_alone
from .handed import Handed
from .models import to_module
from .options import CompilerOptions, current_options
from .pipeline import Bytecode, fuse_relax, generate_bytecode, link, optimize_relax
from .relay_parts import with_relay_parts
from .relay_passes import passes_for
from .surroundings import Surroundings

__all__ = ["Program", "evaluate", "fused_kernels", "lower", "optimize_relay", "relay_module", "run_stage", "to_relax"]

T = TypeVar("T")


@dataclass(frozen=True)
class Program:
    """A module between the two halves of compilation.

    Attributes
    ----------
    code : Bytecode
        The code for `target`, which is the first device's.
    parts : tuple of ProgramPart
        What other devices compute.
    """

    code: Bytecode
    plan: TargetPlan
    target: Target
    signatures: dict[str, Signature]
    info: BuildInfo
    modules: Sequence[tvm.runtime.Module] = ()
    parts: tuple[ProgramPart, ...] = ()


@dataclass(frozen=True)
class ProgramPart:
    """What another device computes, by the name that the program calls it by."""

    name: str
    device: tuple[int, int]
    code: Bytecode
    target: Target


def run_stage(plan: TargetPlan, stage: Callable[[CompilerOptions], T]) -> T:
    """Run a stage of the compiler with tuning records at hand, on a stack that deep programs do not overflow."""
    with tophub.context(plan.targets):
        options = current_options()
        surroundings = Surroundings.capture()
        stage = _ending_nodes(stage)
        if surroundings.has_instruments:
            # Instruments keep what they saw for each thread by itself; the caller reads it in this one.
            return stage(options)

        def deep() -> T:
            with surroundings.entered():
                return stage(options)

        return on_deep_stack(deep)


def _ending_nodes(stage: Callable[[CompilerOptions], T]) -> Callable[[CompilerOptions], T]:
    """Return a stage in which nodes that it makes end with the last reference, and which gives back their memory."""

    def run(options: CompilerOptions) -> T:
        try:
            with old_objects_left_alone(), nodes_end():
                made = stage(options)
        except MemoryError as error:
            said = f"there is not enough memory to compile the model: {str(error) or 'no more is left'}"
            raise CompileMemoryError(said) from error
        return_free_memory()
        return made

    return run


def _is_relax(mod: tvm.IRModule) -> bool:
    return any(isinstance(f, relax.Function) for f in mod.functions.values())


def relay_module(mod: tvm.IRModule | Function) -> tvm.IRModule:
    """Return a module to compile, which has a function ``main``; a function becomes that."""
    if isinstance(mod, Function):
        mod = tvm.IRModule({"main": mod})
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(f"a module to compile is a tvm.IRModule, not {type(mod).__name__}")
    if not any(v.name_hint == "main" for v in mod.get_global_vars()):
        names = ", ".join(sorted(v.name_hint for v in mod.get_global_vars())) or "nothing"
        raise ModelError(f"the module has no function 'main', only {names}")
    return mod


def optimize_relay(
    mod: Handed[tvm.IRModule], params: Mapping[str, tvm.runtime.Tensor], target: Target, options: CompilerOptions
) -> tvm.IRModule:
    """Return a Relay module that lowering takes, with parameters bound, made fast on a target."""
    current = byoc.with_global_functions(bind_params(mod.take(), params))
    # Lowering takes typed modules, calls of global functions and operators that have kernels, so the first ones are
    # no optimisations.
    passes = [transform.InferType(), transform.UnmanifestAlloc(), transform.LiftCalledFunctions()]
    passes.append(transform.QnnCanonicalize())
    passes += [
        each for level, each in passes_for(target, evaluate, options.opt_level) if options.runs(each.info.name, level)
    ]
    for each in passes:
        is_left = True
        while is_left:
            made = each(current)
            is_changed = not made.same_as(current)
            noted = places.noted()
            current = made if noted is None else with_kept_places(made, noted)
            del made
            if is_changed:
                end_unused_nodes()
            is_left = is_partly_folded(current)
            if is_left:
                return_free_memory()
    # Weights as they were before they were packed.
    return_free_memory()
    return current


def fused_kernels(model: Any, target: Target, params: Mapping[str, Any] | None = None) -> tvm.IRModule:
    """Return a model, of any form that :func:`compile` takes, as a module of kernels without schedules."""
    mod, own_params = to_module(model)
    bound = {**own_params, **as_tensors(params or {})}

    def stage(options: CompilerOptions) -> tvm.IRModule:
        lowered, _, _ = to_relax(Handed(mod), bound, target, options)
        return fuse_relax(lowered.module, target, options)

    return run_stage(canonical_target(target), stage)


def to_relax(
    mod: Handed[tvm.IRModule],
    params: Mapping[str, tvm.runtime.Tensor],
    target: Target,
    options: CompilerOptions,
    ahead: KernelsAhead | None = None,
) -> tuple[Lowered, dict[str, Signature], byoc.Linked]:
    """Return a Relay or Relax module as Relax, its functions' signatures, and what other code generators made.

    What is to be built `ahead` is told of kernels.
    """
    mod.become(relay_module)
    if _is_relax(mod.value):
        module = mod.take()
        if params:
            module = relax.transform.BindParams("main", dict(params))(module)
        checks = RuntimeChecks.of(module)

        def lowered_part(part: tvm.IRModule) -> tvm.IRModule:
            return lower_module(optimize_relay(Handed(part), {}, target, options), target, checks=checks).module

        if options.opt_level > 0:
            module = with_relay_parts(module, lowered_part)
        module = with_agreed_sizes(with_transposed_constants(module), checks)
        module = with_checked_bounds(module, checks)
        return Lowered(module, checks.messages, {}), relax_signatures(module), byoc.Linked()
    module = optimize_relay(mod, params, target, options)
    linked = byoc.link_functions(module, target)
    lowered = lower_module(module, target, linked.externals, tell=_builder_ahead(ahead, linked))
    signatures = {n: s for n, s in relay_signatures(module).items() if n in lowered.names}
    return lowered, {lowered.names[name]: signature for name, signature in signatures.items()}, linked


def _builder_ahead(ahead: KernelsAhead | None, linked: byoc.Linked) -> Tell | None:
    """Return what takes kernels to be built ahead; None where what other code generators made is linked otherwise."""
    return None if ahead is None or linked.modules else ahead.offer


def lower(
    mod: Handed[tvm.IRModule],
    params: Mapping[str, tvm.runtime.Tensor],
    plan: TargetPlan,
    options: CompilerOptions,
    ahead: KernelsAhead | None = None,
) -> Program:
    """Return a Relay or Relax module as bytecode and kernels that are not built yet, but for those built `ahead`."""
    with places.keeping(bool(options.config.get(FILL_SPAN))):
        lowered, signatures, linked = to_relax(mod, params, plan.primary, options, ahead)
    end_unused_nodes()
    optimized = optimize_relax(lowered.module, plan.primary, options, _builder_ahead(ahead, linked))
    kernels = tally(optimized)
    code = replace(generate_bytecode(optimized, plan.primary, options), ahead=ahead)
    info = BuildInfo(
        checks=lowered.messages,
        kernels=kernels,
        alignment=ELEMENTS if plan.primary.kind.name == "llvm" else None,
        texts=None if lowered.texts is None else tuple(lowered.texts),
        text_numbers=lowered.text_numbers,
        kernel_groups=code.kernel_groups or None,
        runtimes=linked.runtimes or None,
    )
    return Program(code, plan, plan.primary, signatures, info, linked.modules)


def evaluate(mod: tvm.IRModule) -> list[tvm.runtime.Tensor]:
    """Return the results of ``main``, a function of nothing, computed on this machine, as tensors of stored types."""
    plan = canonical_target("native")
    program = lower(Handed(mod), {}, plan, CompilerOptions(opt_level=0))
    built = link(program.code, plan.primary, program.modules)
    # Results that stay have the numbers that all programs give to texts.
    info = replace(program.info, text_numbers=None)
    executable = Executable(built, program.signatures, plan.primary, info)
    # What TVM's pool has once had it keeps for as long as the process runs.
    values = VirtualMachine(executable, "cpu", memory_cfg="naive", num_threads=1).run()
    return [value.stored if isinstance(value, StoredTensor) else value for value in values]
