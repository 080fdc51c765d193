"""The compiler as users call it.

:func:`compile` does all of it; :class:`VMCompiler` is the same in stages, as Relay's ``relay.vm.VMCompiler`` had them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import tvm

from ..cache import Cache
from ..cache.kernels import Kernels
from ..errors import CompileError, OptionError
from ..executable.executable import Executable, ProfilingParts
from ..isolation import Limits
from ..isolation.progress import tell
from ..relay.ir.lifetime import nodes_end
from ..target import canonical_target
from ..values.tensors import as_tensors
from .ahead import KernelsAhead
from .cached import opened, through_cache
from .code_target import code_target
from .garbage import free_cycles, old_objects_left_alone
from .handed import Handed
from .models import to_module
from .options import CompilerOptions
from .pipeline import kernel_functions, kernel_hashes, link_marked
from .several_devices import build, lower_for_plan
from .stages import Program, optimize_relay, relay_module, run_stage

__all__ = ["VMCompiler", "compile"]

logger = logging.getLogger(__name__)

STAGES = 4
"""Parts of a compilation whose progress is told: reading, optimising, building; the last is for writing a file."""


def compile(
    model: Any,
    target: Any = None,
    target_host: Any = None,
    params: Mapping[str, Any] | None = None,
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    cache: bool | str | os.PathLike[str] | Cache = False,
    isolated: bool = False,
    timeout: float | None = None,
    max_memory: int | None = None,
) -> Executable:
    """Return an executable for a model.

    Parameters
    ----------
    model : path, bytes, onnx.ModelProto, torch.export.ExportedProgram, tvm.IRModule or relay.Function
        An ONNX file, what is in one, a model of ONNX, or a folder with one ONNX file; an exported program or its file
        (``.pt2``); a TFLite file (``.tflite``) or StableHLO's text (``.mlir``); a Relay module, function, text file
        (``.relay``) or JSON file (``.json`` or ``.json.gz``, of any TVM that had Relay or of today's); or a Relax
        module.
    target : optional
        What to compile for; see :func:`vmkit.target.canonical_target`. By default this machine.
    target_host : optional
        The host that drives a device.
    params : mapping, optional
        Arrays to bind to parameters of ``main`` by name.
    shapes : mapping, optional
        For an ONNX model, shapes of inputs by name: ints, names of dimensions, or ``"?"``; and by the name of a
        dimension the least and the largest size that it may have, as in ``{"x": ["n", 4], "n": (1, 64)}``.
    cache : bool, path or vmkit.cache.Cache
        Where to look for the executable first, and to keep it: a folder, or with True that of
        :func:`vmkit.cache.default_folder`. Loading what lies there runs its code, so it has to be this user's alone.
        The log says at level INFO why something was found or not.
    isolated : bool
        Whether to compile in another process, so that a crash of TVM or LLVM, or a compilation that does not end, is an
        error here. The process is kept for the next call. It knows what it can import: operators, converters and code
        generators that a script registers by itself are not there. The executable is loaded from its file, so it has
        to be for this machine, and keeps no sources of its kernels.
    timeout : float, optional
        Seconds that an isolated compilation may take, the start of the process included.
    max_memory : int, optional
        Bytes of memory that the process of an isolated compilation may have resident. On Linux.

    Raises
    ------
    ModelError, UnsupportedOperatorError, ParseError, TypeCheckError
        When the model is at fault.
    TargetError, OptionError, InputError
        When an argument is.
    CompileError
        When a sound program cannot be compiled; of an isolated compilation, when its process ends.
    CompileTimeoutError, CompileMemoryError
        When an isolated compilation passes a limit.
    UnavailableError
        When a way in needs a package that is not installed.
    """
    limits = Limits(timeout, max_memory)
    if isolated:
        from .isolated import Request, compile_isolated

        return compile_isolated(Request.of(model, target, target_host, params or {}, shapes, cache), limits)
    if limits != Limits():
        raise OptionError("timeout and max_memory are for another process: pass isolated=True, too")
    given = as_tensors(params or {})

    def compiled(target: Any, target_host: Any = None, kernels: Kernels | None = None) -> tuple[Executable, bool]:
        with old_objects_left_alone(), nodes_end():
            compiler = VMCompiler()
            compiler._kernels = kernels
            tell(0, STAGES, "reading the model")
            compiler._lower(_with_params(compiler, to_module(model, shapes=shapes), given), target, target_host)
            compiler.codegen()
            return compiler.get_exec(), compiler._has_foreign_parts

    kept = opened(cache)
    if kept is None:
        return compiled(target, target_host)[0]
    plan = canonical_target(target, target_host)
    return through_cache(kept, model, plan, given, shapes, lambda kernels: compiled(plan, None, kernels))


def _with_params(
    compiler: VMCompiler, loaded: tuple[tvm.IRModule, Mapping[str, Any]], given: Mapping[str, tvm.runtime.Tensor]
) -> Handed[tvm.IRModule]:
    """Return the module of a model that was loaded, after its parameters, and those given, are the compiler's."""
    mod, own_params = loaded
    compiler.set_params({**own_params, **given})
    return Handed(mod)


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
        self._program: Program | None = None
        self._executable: Executable | None = None
        self._kernels: Kernels | None = None
        self._ahead: KernelsAhead | None = None

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
        self._lower(Handed(mod), target, target_host)

    def _lower(self, mod: Handed[tvm.IRModule], target: Any, target_host: Any) -> None:
        if self._program is not None:
            raise CompileError("Can't reuse VMCompiler object for multiple modules")
        plan = canonical_target(target, target_host)
        tell(1, STAGES, "optimising")

        def stage(options: CompilerOptions) -> Program:
            # A cache has kernels, which are not built, and keeps those that are by keys of their own.
            self._ahead = KernelsAhead.of(plan.primary, options) if self._kernels is None else None
            return lower_for_plan(mod, self._params, plan, options, self._ahead)

        try:
            self._program = run_stage(plan, stage)
        except BaseException:
            self._end_ahead()
            raise
        self._params = {}
        counts = self._program.info.kernels or {}
        logger.info("kernels: %s", ", ".join(f"{count} {kind}" for kind, count in counts.items()))

    def codegen(self) -> None:
        """Build the kernels of the lowered module."""
        program = self._program
        if program is None:
            raise CompileError("there is nothing to build; call lower first")
        tell(2, STAGES, "building kernels")
        free_cycles()
        try:
            built = run_stage(program.plan, lambda options: build(program, self._kernels))
        finally:
            self._end_ahead()
        # Of a program for several devices only what runs on the first is timed kernel by kernel.
        target, kernels = program.target, program.code.kernels
        grouped = kernels if program.info.kernel_groups and not program.parts else None
        # A profile is of the code that runs, whatever options are in force when it is made.
        marked = None if grouped is None else partial(link_marked, grouped, code_target(target))
        hashes, functions = partial(kernel_hashes, kernels), partial(kernel_functions, kernels)
        profiling = ProfilingParts(marked, hashes, functions, program.code.nodes)
        self._executable = Executable(built, program.signatures, target, program.info, profiling=profiling)

    def _end_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.end()

    @property
    def _has_foreign_parts(self) -> bool:
        return self._program is not None and bool(self._program.modules or self._program.info.runtimes)

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
        optimized = run_stage(
            plan, lambda options: optimize_relay(Handed(relay_module(mod)), self._params, plan.primary, options)
        )
        self._params = {}
        return optimized, {}
