"""A model as the files and the metadata of the Model Library Format's full-model style."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import transform
from tvm.target import Target

from .. import relay
from ..compiler.options import CompilerOptions
from ..compiler.pipeline import fuse_relax
from ..compiler.stages import run_stage, to_relax
from ..errors import CompileError, ModelError
from ..relax.dead_code import eliminate_dead_code
from ..target import TargetPlan
from ..target.plan import command_line
from ..values.signature import Signature, TensorSpec, TupleSpec
from .c_kernels import kernels_source
from .c_main import MainWriter
from .constants import with_constants
from .kernels import Kernel, lowered_kernel
from .lowering import lowered_program
from .narrowing import with_narrow_tensors
from .planning import Plan, plan_workspace
from .program import Program
from .refusals import require_static
from .wrapper import wrapper_files

__all__ = ["Model", "compiled_model"]

_LONGEST_SYMBOL = 80
_ALIGNMENT = 16


@dataclass(frozen=True)
class Model:
    """A model, compiled.

    Attributes
    ----------
    name : str
        An identifier of C, which all its names contain.
    target : Target
        What it is for.
    program, plan, kernels
        What runs, where its tensors are, and the kernels that it calls.
    text : str
        The model in Relay's text, or in Relax's where it never was Relay.
    text_suffix : str
        ``relay`` or ``relax``.
    alignment : int
        Of the workspace, in bytes.
    """

    name: str
    target: Target
    program: Program
    plan: Plan
    kernels: Mapping[str, Kernel]
    text: str
    text_suffix: str
    alignment: int

    @cached_property
    def symbols(self) -> dict[str, str]:
        """The name of each kernel's function."""
        return {name: _symbol(self.name, name) for name in self.kernels}

    @cached_property
    def writer(self) -> MainWriter:
        """What writes the entry."""
        return MainWriter(self.name, self.program, self.plan, self.kernels, self.symbols, self.alignment)

    def files(self) -> dict[str, bytes]:
        """Return the files of the model, by their places in the archive."""
        source, name = "codegen/host/src", self.name
        texts = {
            f"{source}/{name}_lib0.c": self.writer.source(),
            f"{source}/{name}_lib1.c": kernels_source(self.kernels, self.symbols),
            f"codegen/host/include/tvmgen_{name}.h": self.writer.header(),
            f"src/{name}.{self.text_suffix}": self.text,
            **wrapper_files(self.writer),
        }
        made = {place: text.encode() for place, text in texts.items()}
        # Constants are arrays in the code; the file is there for whoever looks for it.
        made[f"parameters/{name}.params"] = bytes(relay.save_param_dict({}))
        return made

    def metadata(self, export_datetime: str) -> dict[str, Any]:
        """Return what ``metadata.json`` says of the model."""
        inputs = {name: {"size": t.nbytes, "dtype": t.dtype} for name, t in self.program.inputs}
        outputs = {name: {"size": t.nbytes, "dtype": t.dtype} for name, t in self.program.outputs}
        main = {
            "device": 1,
            "workspace_size_bytes": self.plan.size,
            "constants_size_bytes": self.writer.constant_bytes(),
            "io_size_bytes": sum(t.nbytes for _, t in (*self.program.inputs, *self.program.outputs)),
            "inputs": inputs,
            "outputs": outputs,
        }
        operators = [
            {
                "function_name": self.symbols[name],
                "workspace": [{"device": 1, "workspace_size_bytes": sum(kernel.workspace_sizes)}],
            }
            for name, kernel in self.kernels.items()
        ]
        return {
            "model_name": self.name,
            "export_datetime": export_datetime,
            "memory": {"functions": {"main": [main], "operator_functions": operators}},
            "target": [command_line(self.target)],
            "executors": ["aot"],
            "style": "full-model",
            "external_dependencies": [],
        }


def compiled_model(
    mod: tvm.IRModule,
    params: Mapping[str, tvm.runtime.Tensor],
    plan: TargetPlan,
    name: str,
    workspace_byte_alignment: int = 1,
) -> Model:
    """Return a module compiled as a model.

    Raises
    ------
    ModelError
        When a size of it is known at run time only, or the name is no identifier.
    CompileError
        When it has what C has no counterpart of.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ModelError(f"the model's name {name!r} is no identifier of C")
    target = plan.primary

    def stage(options: CompilerOptions) -> Model:
        require_static(mod, params)
        # What is quantised is computed with integers: microcontrollers are slow with floats, if they have them at all.
        required, disabled = options.required | {"FactorScales"}, options.disabled | {"FloatProducts"}
        options = replace(options, required=required - options.disabled, disabled=disabled)
        lowered, signatures, linked = to_relax(mod, params, target, options)
        if linked.externals:
            names = ", ".join(linked.externals)
            raise CompileError(f"{names}: C that other code generators wrote needs TVM's runtime, and is not exported")
        fused = fuse_relax(lowered.module, target, options)
        with target:
            passes = [transform.RewriteDataflowReshape(), transform.ToNonDataflow(), eliminate_dead_code()]
            fused = tvm.transform.Sequential(passes)(fused)
        program, kernels = _program(fused, signatures["main"], target)
        memory = plan_workspace(program, kernels, workspace_byte_alignment)
        alignment = max(_ALIGNMENT, workspace_byte_alignment)
        return Model(name, target, program, memory, kernels, *_text(mod), alignment)

    return run_stage(plan, stage)


def _program(mod: tvm.IRModule, signature: Signature, target: Target) -> tuple[Program, dict[str, Kernel]]:
    functions = {v.name_hint: f for v, f in mod.functions.items() if isinstance(f, tirx.PrimFunc)}
    kernels: dict[str, Kernel] = {}

    def kernel(name: str) -> Kernel:
        if name not in kernels:
            kernels[name] = lowered_kernel(name, functions[name], target)
        return kernels[name]

    program = lowered_program(
        mod,
        lambda name: kernel(name).workspace_sizes,
        lambda name: bool("vmkit.reshape" in functions[name].attrs) and len(functions[name].params) == 2,
        (list(signature.names), _output_names(signature, mod["main"])),
    )
    return program, with_narrow_tensors(program, with_constants(program, kernels))


def _output_names(signature: Signature, main: relax.Function) -> list[str]:
    """Return the names of the tensors of a result: those that the function says, else by their number."""
    count = sum(_leaves(spec) for spec in signature.outputs)
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


def _symbol(model: str, kernel: str) -> str:
    """Return the name of a kernel's function: a long one is cut, and ends in a digest of what it was."""
    name = f"tvmgen_{model}_{re.sub(r'[^A-Za-z0-9_]', '_', kernel)}"
    if len(name) <= _LONGEST_SYMBOL:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_SYMBOL - 17]}_{digest}"
