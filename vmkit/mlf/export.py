"""Models and operators as archives of the Model Library Format, version 7."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.target import Target

from ..compiler.models import to_module
from ..errors import ModelError, OptionError, TargetError
from ..target import TargetPlan, canonical_target
from ..values.tensors import as_tensors
from .archive import write_archive
from .compiling import compiled_model, kernel_functions
from .model import Model
from .operators import Operators, as_functions, is_operators

__all__ = ["VERSION", "export", "model_of", "write", "write_operators"]

VERSION = 7
"""The version of the format."""


def export(
    model: Any,
    path: str | os.PathLike[str],
    params: Mapping[str, Any] | None = None,
    target: Any = "c",
    model_name: str = "default",
    *,
    style: str | None = None,
    executor: str = "aot",
    interface: str = "c",
    shapes: Mapping[str, Sequence[Any]] | None = None,
    workspace_byte_alignment: int = 1,
) -> dict[str, Any]:
    """Write a model as an archive of C99 with an entry, a header and a description, and return that description.

    The entry ``tvmgen_<model_name>_run`` takes structs of pointers to the inputs and outputs, whose fields have the
    names that the model has for them, or ``output``, or ``output0`` and so on. It allocates nothing:
    tensors between lie in a workspace of static memory, constants in arrays of the code. It needs the C library and
    libm. What :func:`vmkit.byoc.partition` gave to a code generator that writes C goes along as it wrote it.

    Parameters
    ----------
    model
        A model in any form that :func:`vmkit.compile` takes, of sizes that are known. Or operators: a function of TIR,
        a module of those, or a list of TE's tensors; or a mapping from targets to such and to models, whose kernels
        are the operators.
    path : path
        The archive, a ``.tar``. Nothing is written unless all of it can be.
    params : mapping, optional
        Arrays to bind to parameters of ``main`` by name: constants.
    target : optional
        ``"c"`` with its options; or a target of kind ``"llvm"``, which may be another machine's, for kernels as an
        object file in place of their C.
    model_name : str
        An identifier of C, which all names of the model contain.
    style : str, optional
        ``"full-model"`` or ``"operator"``: by default the latter for operators alone. A Relay function whose kernels
        are wanted by themselves is exported with ``"operator"``.
    executor : str
        ``"aot"``: the entry above. ``"graph"``: the graph, parameters and packed functions that the graph executor of
        TVM 0.14's C runtime reads, in place of an entry; the runtime is not in the archive.
    interface : str
        What the entry of ``"aot"`` takes: ``"c"``, the structs above; ``"packed"``, arguments as TVM 0.14's C runtime
        gives them, the inputs' tensors before the outputs'. With the latter, the one of structs is called
        ``tvmgen_<model_name>_run_unpacked``.
    shapes : mapping, optional
        For an ONNX model, the shapes of inputs by name.
    workspace_byte_alignment : int
        What the places of tensors in the workspace are multiples of, a power of 2; in any case of an element's size.

    Returns
    -------
    dict
        What ``metadata.json`` of the archive says; sizes are in bytes.

    Raises
    ------
    ModelError, UnsupportedOperatorError
        When the model is at fault, or a size of it is not known; the message names the input or node.
    CompileError
        When it has what C has no counterpart of: closures, data types, recursion that is no loop, packed functions.
    TargetError, OptionError
        When an argument is at fault.
    ExecutableError
        When the file cannot be written.
    """
    if style not in (None, "full-model", "operator"):
        raise OptionError(f"style: expected 'full-model' or 'operator', got {style!r}")
    _check(executor, workspace_byte_alignment)
    if style == "operator" or (style is None and is_operators(model)):
        _require_no_entry(executor, interface, workspace_byte_alignment)
        return write_operators(path, _operators(model, target, model_name, params, shapes))
    compiled = model_of(
        *(model, params, target, model_name),
        executor=executor,
        interface=interface,
        shapes=shapes,
        workspace_byte_alignment=workspace_byte_alignment,
    )
    return write(path, [compiled])


def model_of(
    model: Any,
    params: Mapping[str, Any] | None = None,
    target: Any = "c",
    model_name: str = "default",
    *,
    executor: str = "aot",
    interface: str = "c",
    shapes: Mapping[str, Sequence[Any]] | None = None,
    workspace_byte_alignment: int = 1,
    numbers_outputs: bool = False,
) -> Model:
    """Return a model compiled and not yet written; see :func:`export` for the arguments, and what is raised.

    With `numbers_outputs`, outputs have the names that TVM gave them, though an ONNX model has others for them.
    """
    _check(executor, workspace_byte_alignment)
    plan = _plan(target)
    mod, given = _module_of(model, params, shapes)
    return compiled_model(
        *(mod, given, plan, model_name, workspace_byte_alignment, executor),
        interface=interface,
        numbers_outputs=numbers_outputs,
    )


def _check(executor: str, alignment: int) -> None:
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise OptionError(f"workspace_byte_alignment: expected a power of 2, got {alignment!r}")
    if executor not in ("aot", "graph"):
        raise OptionError(f"executor: expected 'aot' or 'graph', got {executor!r}")


def _module_of(
    model: Any, params: Mapping[str, Any] | None, shapes: Mapping[str, Sequence[Any]] | None
) -> tuple[tvm.IRModule, dict[str, tvm.runtime.Tensor]]:
    """Return the program of a model, and the values of its parameters."""
    # The onnx package takes longer to import than a small program to compile.
    from ..frontend.onnx import spans

    before = spans.fill(True)  # what is refused is named by the nodes of the model
    try:
        mod, own_params = to_module(model, shapes=shapes)
    finally:
        spans.fill(before)
    return mod, {**own_params, **as_tensors(params or {})}


def _plan(target: Any) -> TargetPlan:
    plan = canonical_target(target)
    if plan.primary.kind.name not in ("c", "llvm") or len(plan.targets) > 1:
        raise TargetError(f"the Model Library Format is written for one target, 'c' or 'llvm', not {plan}")
    return plan


def _require_no_entry(executor: str, interface: str, alignment: int) -> None:
    """Raise OptionError for options of the entry, which operators do not have."""
    given = {"executor": executor, "interface": interface, "workspace_byte_alignment": alignment}
    usual = {"executor": "aot", "interface": "c", "workspace_byte_alignment": 1}
    wrong = [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
    if wrong:
        raise OptionError(f"{', '.join(wrong)}: operators are functions by themselves, with no entry around them")


def _operators(
    model: Any, target: Any, name: str, params: Mapping[str, Any] | None, shapes: Mapping[str, Sequence[Any]] | None
) -> Operators:
    """Return operators with their targets; those of a model are its kernels."""
    made: list[tuple[Target, Mapping[str, tirx.PrimFunc]]] = []
    is_bound = False
    for each, operators in model.items() if isinstance(model, Mapping) else [(target, model)]:
        plan, functions = _plan(each), as_functions(operators, name)
        if functions is None:
            functions, is_bound = kernel_functions(*_module_of(operators, params, shapes), plan), True
        made.append((plan.primary, functions))
    if (params or shapes) and not is_bound:
        raise OptionError(
            "params and shapes are for models: functions of TE and TIR have all of their sizes and values"
        )
    return Operators(name, made)


def write_operators(path: str | os.PathLike[str], operators: Operators) -> dict[str, Any]:
    """Write operators as an archive, and return its description."""
    operators.check()
    metadata = {"version": VERSION, **operators.metadata(_now())}
    write_archive(Path(path), metadata, operators.files())
    return metadata


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def write(path: str | os.PathLike[str], models: Sequence[Model]) -> dict[str, Any]:
    """Write models as one archive, and return its description."""
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise ModelError(f"Multiple modules should have unique names, got {', '.join(names)}")
    metadata = {"version": VERSION, "modules": {model.name: model.metadata(_now()) for model in models}}
    files: dict[str, bytes] = {}
    for model in models:
        # There is one wrapper, which is of the first model.
        files = {**model.files(), **files}
    write_archive(Path(path), metadata, files)
    return metadata
