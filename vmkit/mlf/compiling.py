"""Modules compiled as models for the Model Library Format."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from types import MappingProxyType

import tvm
from tvm import tirx
from tvm.relax import transform
from tvm.target import Target

from .. import relay
from ..compiler.handed import Handed
from ..compiler.options import CompilerOptions
from ..compiler.pipeline import fuse_relax
from ..compiler.stages import relay_module, run_stage, to_relax
from ..errors import CompileError, ModelError, OptionError
from ..relax.dead_code import eliminate_dead_code
from ..relay.signature import OUTPUT_NAMES
from ..target import TargetPlan, canonical_target
from ..values.signature import Signature, TensorSpec, TupleSpec
from .constants import finite_arguments, with_constants
from .kernels import Kernel, lowered_kernel
from .lowering import lowered_program
from .model import ALIGNMENT, Model
from .narrowing import with_narrow_tensors
from .planning import plan_workspace
from .program import Program
from .refusals import require_static, with_nodes

__all__ = ["compiled_model", "kernel_functions"]


def compiled_model(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.runtime.Tensor],
    plan: TargetPlan,
    name: str,
    workspace_byte_alignment: int = 1,
    executor: str = "aot",
    target_text: str = "",
    graph_metadata: Mapping[str, str] = MappingProxyType({}),
    interface: str = "c",
    numbers_outputs: bool = False,
) -> Model:
    """Return a module compiled as a model.

    Parameters
    ----------
    numbers_outputs
        Whether outputs are called ``output``, or ``output0`` and so on, as TVM did, though an ONNX model has names for
        them. What ``output_tensor_names`` says holds in any case.

    Raises
    ------
    ModelError
        When a size of it is known at run time only, or the name is no identifier.
    CompileError
        When it has what C has no counterpart of.
    OptionError
        When there is no such interface.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ModelError(f"the model's name {name!r} is no identifier of C")
    if interface not in ("c", "packed"):
        raise OptionError(f"interface: expected 'c' or 'packed', got {interface!r}")
    if executor == "graph" and interface != "c":
        raise OptionError(f"interface {interface!r}: a graph's functions are packed, and there is no entry to choose")
    target = plan.primary

    def output_names(signature: Signature) -> list[str]:
        return _output_names(signature, mod, numbers_outputs)

    def stage(options: CompilerOptions) -> Model:
        require_static(mod, params)
        # What is quantised is computed with integers: microcontrollers are slow with floats, if they have them at all.
        required, disabled = options.required | {"FactorScales"}, options.disabled | {"FloatProducts"}
        options = replace(options, required=required - options.disabled, disabled=disabled)
        # An object file is made of the same loops as the C: LLVM finds vectors in them by itself.
        source = canonical_target("c").primary
        lowered, signatures, linked = to_relax(Handed(mod), params, source, options)
        others = [name for name, external in linked.externals.items() if external.symbol not in linked.sources]
        if others:
            raise CompileError(
                f"{', '.join(others)}: of what other code generators make, the C (vmkit.byoc.CSource) alone is exported"
            )
        fused = fuse_relax(lowered.module, source, options)
        with source:
            passes = [transform.RewriteDataflowReshape(), transform.ToNonDataflow(), eliminate_dead_code()]
            fused = tvm.transform.Sequential(passes)(fused)
        try:
            program, kernels = _program(fused, signatures["main"], target, executor, output_names, linked.sources)
        except CompileError as error:
            raise with_nodes(error, relay_module(mod)) from error
        memory = plan_workspace(program, kernels, workspace_byte_alignment)
        alignment = max(ALIGNMENT, workspace_byte_alignment)
        made = Model(
            *(name, target, program, memory, kernels, *_text(mod), alignment),
            executor=executor,
            target_text=target_text,
            graph_metadata=graph_metadata,
            interface=interface,
            sources=linked.sources,
        )
        assert executor == "aot" or made.graph is not None  # made here, where what no graph has is an error
        return made

    return run_stage(plan, stage)


def kernel_functions(
    mod: tvm.IRModule, params: Mapping[str, tvm.runtime.Tensor], plan: TargetPlan
) -> dict[str, tirx.PrimFunc]:
    """Return the kernels of a module by name, fused, as functions of TIR."""

    def stage(options: CompilerOptions) -> dict[str, tirx.PrimFunc]:
        require_static(mod, params)
        source = canonical_target("c").primary
        fused = fuse_relax(to_relax(Handed(mod), params, source, options)[0].module, source, options)
        return {v.name_hint: f for v, f in fused.functions.items() if isinstance(f, tirx.PrimFunc)}

    return run_stage(plan, stage)


def _program(
    mod: tvm.IRModule,
    signature: Signature,
    target: Target,
    executor: str,
    output_names: Callable[[Signature], list[str]],
    foreign: Container[str],
) -> tuple[Program, dict[str, Kernel]]:
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    kernels: dict[str, Kernel] = {}
    finite = finite_arguments(mod)

    def kernel(name: str) -> Kernel:
        if name not in kernels:
            kernels[name] = lowered_kernel(name, functions[name], target, finite.get(name, frozenset()))
        return kernels[name]

    program = lowered_program(
        mod,
        lambda name: kernel(name).workspace_sizes,
        lambda name: bool("vmkit.reshape" in functions[name].attrs) and len(functions[name].params) == 2,
        (list(signature.names), output_names(signature)),
        foreign,
    )
    for side, tensors in (("inputs", program.inputs), ("outputs", program.outputs)):
        names = [name for name, _ in tensors]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ModelError(f"two {side} are called {', '.join(map(repr, twice))}, and a description has them by name")
    if executor == "graph":
        return program, {call.kernel: kernels[call.kernel] for call in program.calls}
    return program, with_narrow_tensors(program, with_constants(program, kernels))


def _output_names(signature: Signature, mod: tvm.IRModule | relay.Function, numbers: bool) -> list[str]:
    """Return the names of the tensors of a result: those that the program has for them, else by their number."""
    count = sum(_leaves(spec) for spec in signature.outputs)
    main = mod if isinstance(mod, relay.Function) else mod["main"]
    attrs = main.attrs or {}
    if "output_tensor_names" in attrs:
        given = [str(name) for name in attrs["output_tensor_names"]]
        if len(given) != count:
            raise ModelError(f"output_tensor_names has {len(given)} names for {count} tensors")
        return given
    named = [str(name) for name in attrs[OUTPUT_NAMES]] if OUTPUT_NAMES in attrs and not numbers else []
    if len(named) == count:
        return named
    return ["output"] if count == 1 and not signature.result_is_tuple else [f"output{k}" for k in range(count)]


def _leaves(spec: object) -> int:
    if isinstance(spec, TupleSpec):
        return sum(map(_leaves, spec.fields))
    if not isinstance(spec, TensorSpec):
        raise CompileError(f"main returns {spec}: C gets tensors alone")
    return 1


def _text(mod: tvm.IRModule) -> tuple[str, str]:
    if any(isinstance(f, relay.Function) for f in mod.functions.values()):
        return relay.astext(mod, show_meta_data=False), "relay"
    return str(mod.script(show_meta=False)), "relax"
