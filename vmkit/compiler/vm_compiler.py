"""What to build: models of every form to executables.

:func:`compile` does all of it; :class:`VMCompiler` is the same in stages, as Relay's ``relay.vm.VMCompiler`` had them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm import relax
from tvm.target import Target

from .. import optimize, tophub
from ..errors import CompileError, ModelError
from ..executable.build_info import BuildInfo
from ..executable.executable import Executable
from ..relax.alignment import ELEMENTS
from ..relay import transform
from ..relay.ir import Function
from ..relay.lower import Lowered, lower_module
from ..relay.params import bind_params
from ..relay.signature import relax_signatures, relay_signatures
from ..stack import on_deep_stack
from ..target import TargetPlan, canonical_target
from ..target.processor import processor_of
from ..tophub.choosing import tally
from ..values.signature import Signature
from ..values.tensors import as_tensors
from .models import load_model
from .options import CompilerOptions, current_options
from .pipeline import Bytecode, fuse_relax, generate_bytecode, link, optimize_relax
from .surroundings import Surroundings

__all__ = ["VMCompiler", "compile", "evaluate", "fused_kernels"]

T = TypeVar("T")

_CHANNELS_LAST = {"nn.conv1d": ["NWC", "default"], "nn.conv2d": ["NHWC", "default"]}
_CHANNELS_LAST_ON_CPU = {
    **_CHANNELS_LAST,
    "nn.conv3d": ["NDHWC", "default"],
    "nn.conv1d_transpose": ["NWC", "default"],
    "nn.conv2d_transpose": ["NHWC", "default"],
    "nn.conv3d_transpose": ["NDHWC", "default"],
}

logger = logging.getLogger(__name__)


def compile(
    model: Any,
    target: Any = None,
    target_host: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
) -> Executable:
    """Return an executable for a model.

    Parameters
    ----------
    model : path, onnx.ModelProto, tvm.IRModule or relay.Function
        An ONNX file or model; a Relay module, function, text file (``.relay``) or JSON file (``.json`` or
        ``.json.gz``, of any TVM that had Relay or of today's); or a Relax module.
    target : optional
        What to compile for; see :func:`vmkit.target.canonical_target`. By default this machine.
    target_host : optional
        The host that drives a device.
    params : mapping, optional
        Arrays to bind to parameters of ``main`` by name.
    shapes : mapping, optional
        For an ONNX model, shapes of inputs by name: ints, names of dimensions, or ``"?"``; and by the name of a
        dimension the least and the largest size that it may have, as in ``{"x": ["n", 4], "n": (1, 64)}``.

    Raises
    ------
    ModelError, UnsupportedOperatorError, ParseError, TypeCheckError
        When the model is at fault.
    TargetError, OptionError, InputError
        When an argument is.
    CompileError
        When a sound program cannot be compiled.
    """
    mod, own_params = load_model(model, shapes=shapes)
    compiler = VMCompiler()
    compiler.set_params({**own_params, **as_tensors(params or {})})
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


@dataclass(frozen=True)
class _Program:
    """A module between the two halves of compilation."""

    code: Bytecode
    plan: TargetPlan
    signatures: dict[str, Signature]
    info: BuildInfo


class VMCompiler:
    """Compilation in stages: ``set_params``, ``lower``, ``codegen``, ``get_exec``; or ``optimize`` alone.

    One compiler compiles one module.

    Examples
    --------
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(relay.Any(), 2))
    >>> compiler = VMCompiler()
    >>> compiler.lower(tvm.IRModule({"main": relay.Function([x], relay.add(x, x))}), target="llvm")
    >>> compiler.codegen()
    >>> print(compiler.get_exec().signature)
    main(x: float32[?, 2]) -> float32[?, 2]
    """

    def __init__(self) -> None:
        self._params: dict[str, Any] = {}
        self._program: _Program | None = None
        self._executable: Executable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Give arrays to bind to parameters of ``main`` by name, when the module is lowered.

        Parameters
        ----------
        params : mapping of str to array
            numpy arrays, TVM tensors or numbers.

        Raises
        ------
        InputError
            Listing all values that are none of these.
        """
        self._params = as_tensors(params)

    def get_params(self) -> dict[str, Any]:
        """Return the parameters that are not bound yet, as TVM tensors by name."""
        return dict(self._params)

    def lower(self, mod: tvm.IRModule, target: Any = None, target_host: Any = None) -> None:
        """Compile a module to bytecode, and to kernels that :meth:`codegen` builds.

        Parameters
        ----------
        mod : tvm.IRModule
            A Relay or Relax module with a function ``main``.
        target, target_host : optional
            See :func:`vmkit.target.canonical_target`.
        """
        if self._program is not None:
            raise CompileError("Can't reuse VMCompiler object for multiple modules")
        plan = canonical_target(target, target_host)
        self._program = _run(plan, lambda options: _lower(mod, self._params, plan, options))
        self._params = {}
        counts = self._program.info.kernels or {}
        logger.info("kernels: %s", ", ".join(f"{count} {kind}" for kind, count in counts.items()))

    def codegen(self) -> None:
        """Build the kernels of the lowered module."""
        program = self._program
        if program is None:
            raise CompileError("there is nothing to build; call lower first")
        built = _run(program.plan, lambda options: link(program.code, program.plan.primary))
        self._executable = Executable(built, program.signatures, program.plan.primary, program.info)

    def get_exec(self) -> Executable:
        """Return the executable; CompileError before :meth:`lower` and :meth:`codegen`."""
        if self._program is None:
            raise CompileError("No executable to return. Did you forget to call VMCompiler.lower?")
        if self._executable is None:
            raise CompileError("Executable is empty. Did you forget to call VMCompiler.codegen?")
        return self._executable

    def optimize(
        self,
        mod: tvm.IRModule,
        target: Any = None,
        target_host: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[tvm.IRModule, dict[str, Any]]:
        """Return the optimised Relay module, with `params` bound, and the parameters left.

        Nothing of it is kept for :meth:`lower`.
        """
        if params:
            self.set_params(params)
        plan = canonical_target(target, target_host)
        optimized = _run(plan, lambda options: _optimize_relay(_relay_module(mod), self._params, plan.primary, options))
        self._params = {}
        return optimized, {}


def _run(plan: TargetPlan, stage: Callable[[CompilerOptions], T]) -> T:
    """Run a stage of the compiler with tuning records at hand, on a stack that deep programs do not overflow."""
    with tophub.context(plan.targets):
        options = current_options()
        surroundings = Surroundings.capture()
        if surroundings.has_instruments:
            # Instruments keep what they saw for each thread by itself; the caller reads it in this one.
            return stage(options)

        def deep() -> T:
            with surroundings.entered():
                return stage(options)

        return on_deep_stack(deep)


def _is_relax(mod: tvm.IRModule) -> bool:
    return any(isinstance(f, relax.Function) for f in mod.functions.values())


def _relay_module(mod: Any) -> tvm.IRModule:
    if isinstance(mod, Function):
        mod = tvm.IRModule({"main": mod})
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(f"a module to compile is a tvm.IRModule, not {type(mod).__name__}")
    if not any(v.name_hint == "main" for v in mod.get_global_vars()):
        names = ", ".join(sorted(v.name_hint for v in mod.get_global_vars())) or "nothing"
        raise ModelError(f"the module has no function 'main', only {names}")
    return mod


def _optimize_relay(
    mod: tvm.IRModule, params: Mapping[str, Any], target: Target, options: CompilerOptions
) -> tvm.IRModule:
    mod = bind_params(mod, params)
    # Lowering takes typed modules, calls of global functions and operators that have kernels, so the first ones are
    # no optimisations.
    passes = [transform.InferType(), transform.LambdaLift(), transform.QnnCanonicalize()]
    passes += [each for level, each in _optimizations(target) if options.runs(each.info.name, level)]
    for each in passes:
        mod = each(mod)
    return mod


def _optimizations(target: Target) -> list[tuple[int, tvm.transform.Pass]]:
    """Return the passes that make a Relay module faster on a target, each with the level from which it runs."""
    passes = [(0, transform.SimplifyInference()), (2, transform.FoldConstant(fold_qnn=True))]
    scales = [
        (2, transform.BackwardFoldScaleAxis()),
        (2, transform.ForwardFoldScaleAxis()),
        (2, transform.FoldConstant()),
    ]
    if "gpu" in target.keys:
        # Threads that follow each other compute channels that do, whatever the sizes of images; weights are constants,
        # and so turned round while compiling.
        last = [(2, transform.ConvertLayout(_CHANNELS_LAST)), (2, transform.FoldConstant())]
        return [*passes, (2, optimize.FloatProducts()), (2, optimize.FlattenRows()), *scales, *last]
    if target.kind.name != "llvm":
        return [*passes, (2, optimize.FloatProducts()), *scales]
    processor = processor_of(target)
    unit, integers, cores, has_tiles = processor.vectors, processor.integers, processor.cores, bool(processor.matrix)
    # Channels come last in memory, so that vectors run along them whatever the sizes of images; weights are packed
    # for that. Each step leaves constants to compute.
    return [
        *([(2, optimize.FactorScales(integers))] if integers is not None else []),
        *passes,
        (2, optimize.LookUpFirst()),
        (2, optimize.FuseRecurrence(unit.lanes)),
        (2, optimize.FuseAttention(unit.lanes)),
        (2, optimize.FoldLookups()),
        (2, optimize.FlattenRows()),
        *scales,
        (2, transform.ConvertLayout(_CHANNELS_LAST_ON_CPU)),
        (2, optimize.UseIm2col()),
        (2, transform.FoldConstant()),
        (2, optimize.UseSubpixel(unit.lanes)),
        *([(2, optimize.IntegerProducts(integers))] if integers is not None else []),
        (2, optimize.FloatProducts()),
        (2, optimize.FoldTransposes()),
        (2, optimize.UseWinograd(unit.lanes, unit.registers, cores, has_tiles)),
        *([(2, optimize.PackAMXTiles())] if has_tiles else []),
        (2, optimize.UsePackedGemm(unit.lanes, unit.registers)),
        (2, optimize.PackWeights(unit.lanes)),
        (2, transform.FoldConstant()),
    ]


def fused_kernels(model: Any, target: Target, params: Mapping[str, Any] | None = None) -> tvm.IRModule:
    """Return a model, of any form that :func:`compile` takes, as a module of kernels without schedules."""
    mod, own_params = load_model(model)
    bound = {**own_params, **as_tensors(params or {})}

    def stage(options: CompilerOptions) -> tvm.IRModule:
        lowered, _ = _to_relax(mod, bound, target, options)
        return fuse_relax(lowered.module, target, options)

    return _run(canonical_target(target), stage)


def _to_relax(
    mod: Any, params: Mapping[str, Any], target: Target, options: CompilerOptions
) -> tuple[Lowered, dict[str, Signature]]:
    mod = _relay_module(mod)
    if _is_relax(mod):
        if params:
            mod = relax.transform.BindParams("main", dict(params))(mod)
        return Lowered(mod, {}, {}), relax_signatures(mod)
    mod = _optimize_relay(mod, params, target, options)
    lowered = lower_module(mod, target)
    return lowered, {lowered.names[name]: signature for name, signature in relay_signatures(mod).items()}


def _lower(mod: Any, params: Mapping[str, Any], plan: TargetPlan, options: CompilerOptions) -> _Program:
    lowered, signatures = _to_relax(mod, params, plan.primary, options)
    optimized = optimize_relax(lowered.module, plan.primary, options)
    kernels = tally(optimized)
    code = generate_bytecode(optimized, plan.primary, options)
    info = BuildInfo(
        checks=lowered.messages,
        kernels=kernels,
        alignment=ELEMENTS if plan.primary.kind.name == "llvm" else None,
        texts=None if lowered.texts is None else tuple(lowered.texts),
        kernel_groups=code.kernel_groups or None,
    )
    return _Program(code, plan, signatures, info)


def evaluate(mod: tvm.IRModule) -> list[tvm.runtime.Tensor]:
    """Return the results of ``main``, a function of nothing, computed on this machine, as tensors of stored types."""
    from ..runtime.machine import VirtualMachine
    from ..values.conversion import StoredTensor

    plan = canonical_target("native")
    program = _lower(mod, {}, plan, CompilerOptions(opt_level=0))
    executable = Executable(link(program.code, plan.primary), program.signatures, plan.primary, program.info)
    values = VirtualMachine(executable, "cpu", num_threads=1).run()
    return [value.stored if isinstance(value, StoredTensor) else value for value in values]
