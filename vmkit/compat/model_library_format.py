"""``tvm.micro.model_library_format``: what ``relay.build`` gave, written as C by :mod:`vmkit.mlf`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from vmkit import mlf
from vmkit.errors import ModelError, UnavailableError
from vmkit.mlf.compiling import compiled_model
from vmkit.mlf.export import write, write_operators
from vmkit.mlf.operators import Operators
from vmkit.target.plan import without_host
from vmkit.values.tensors import as_tensors

from .build_choices import c_interface
from .built_module import BuiltModule
from .te_build import OperatorModule

__all__ = [
    "NonStaticShapeError",
    "RepeatedNameError",
    "UnsupportedInModelLibraryFormatError",
    "export_model_library_format",
    "generate_c_interface_header",
]

_GENERATED_VERSION = mlf.VERSION
EPHEMERAL_MODULE_TYPE_KEYS = ("metadata_module",)


class UnsupportedInModelLibraryFormatError(UnavailableError):
    """What is exported has a part that the format cannot hold."""


class NonStaticShapeError(ModelError):
    """A shape is known at run time only."""


class RepeatedNameError(ModelError, AssertionError):
    """Two models of one archive have the same name."""


def export_model_library_format(
    mods: BuiltModule | OperatorModule | Sequence[BuiltModule], file_name: str | os.PathLike[str]
) -> str | os.PathLike[str]:
    """Write built models as one archive, and return its place.

    Parameters
    ----------
    mods : what ``relay.build`` returned, or a list of such, or what ``tvm.build`` made of a schedule
        Each is compiled anew, for the target and the executor that it was built with, from the program and the
        parameters that were given.
    file_name : path
        The archive.

    Raises
    ------
    ModelError, CompileError
        As :func:`vmkit.mlf.export` does.
    UnsupportedInModelLibraryFormatError
        For anything else than a built model.
    """
    given = list(mods) if isinstance(mods, list | tuple) else [mods]
    operators = [each for each in given if isinstance(each, OperatorModule)]
    if operators:
        return _export_operators(operators[0], len(given), file_name)
    models = [each for each in given if isinstance(each, BuiltModule)]
    others = [each for each in given if not isinstance(each, BuiltModule)]
    if others:
        raise UnsupportedInModelLibraryFormatError(
            f"expected what relay.build returns, or tvm.build of a schedule, got {type(others[0]).__name__}; "
            "vmkit.mlf.export writes operators of TE and TIR"
        )
    names = [model.libmod_name for model in models]
    if len(set(names)) < len(names):
        raise RepeatedNameError(f"Multiple modules should have unique names, got {', '.join(names)}")
    made = []
    for model in models:
        source = model.source
        params = as_tensors(source.params)
        executor = source.executor
        alignment = int(executor["workspace-byte-alignment"]) if "workspace-byte-alignment" in executor else 1
        named = str(without_host(source.plan.primary))
        # As in graph_json of what was built.
        beside = {"program": model.fingerprint} if executor.name == "graph" else {}
        mod, plan, name = source.ir_mod, source.plan, model.libmod_name
        interface = c_interface(executor)
        compiled = compiled_model(
            *(mod, params, plan, name, alignment, executor.name, named, beside, interface), numbers_outputs=True
        )
        made.append(replace(compiled, text=str(mod)))
    write(Path(file_name), made)
    return file_name


def _export_operators(module: OperatorModule, count: int, file_name: str | os.PathLike[str]) -> str | os.PathLike[str]:
    if count > 1:
        raise UnsupportedInModelLibraryFormatError(
            "Multiple operator is not supported. vmkit.mlf.export writes several, by their targets"
        )
    functions = [
        (without_host(target), {gvar.name_hint: function for gvar, function in mod.functions.items()})
        for target, mod in module.ir_module_by_target.items()
    ]
    write_operators(file_name, Operators(module.name, functions, target_text=str))
    return file_name


def generate_c_interface_header(*_: object, **__: object) -> NoReturn:
    """Raise UnavailableError: headers are written with the rest of an archive."""
    raise UnavailableError("headers are written by export_model_library_format; vmkit.mlf.export returns the metadata")
