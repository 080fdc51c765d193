"""Models of every form as modules: files, ONNX, Relay and Relax."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm

from ..errors import ModelError, suggest
from ..relay.ir import Function
from ..relay.text import parse

__all__ = ["is_read_onnx", "to_module"]


def to_module(
    model: Any, *, shapes: Mapping[str, Sequence[Any]] | None = None
) -> tuple[tvm.IRModule, Mapping[str, Any]]:
    """Return a model of any form that :func:`compile` takes as a module and its parameters."""
    if isinstance(model, str | os.PathLike):
        return _load_file(Path(model), shapes)
    if hasattr(model, "SerializeToString") or isinstance(model, bytes | bytearray | memoryview) or is_read_onnx(model):
        return _from_onnx(model, shapes)
    _refuse(shapes)
    if _is_of(model, "torch.export.exported_program", "ExportedProgram"):
        from ..frontend.torch import from_exported_program

        return from_exported_program(model), {}
    if isinstance(model, tvm.IRModule):
        return model, {}
    if isinstance(model, Function):
        return tvm.IRModule({"main": model}), {}
    raise ModelError(
        "a model is a path, the bytes of an ONNX file, an onnx.ModelProto, a torch.export.ExportedProgram, a "
        f"tvm.IRModule or a relay.Function, not {type(model).__name__}"
    )


def _load_file(path: Path, shapes: Mapping[str, Sequence[Any]] | None) -> tuple[tvm.IRModule, Mapping[str, Any]]:
    if path.is_dir():
        return _from_onnx(path, shapes)
    if not path.is_file():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        raise ModelError(f"{path}: there is no such file{suggest(path.name, [p.name for p in beside])}")
    if path.suffix == ".onnx":
        return _from_onnx(str(path), shapes)
    if path.suffix not in (".tflite", ".vmx"):
        _refuse(shapes)
    match path.suffix:
        case ".relay" | ".txt":
            return parse(_text_of(path), path.name), {}
        case ".json":
            return _from_json(path, _text_of(path)), {}
        case ".gz" if path.name.endswith(".json.gz"):
            return _from_json(path, _unzipped_text_of(path)), {}
        case ".pt2":
            from ..frontend.torch import from_pt2

            return from_pt2(path), {}
        case ".tflite":
            from ..frontend.tflite import from_tflite

            return from_tflite(path, shapes), {}
        case ".mlir":
            from ..frontend.stablehlo import from_stablehlo

            return from_stablehlo(_text_of(path), path.name), {}
        case ".py" | ".relax":
            raise ModelError(
                f"{path}: a Relax script is Python, and reading it runs it. For one that is trusted, pass "
                "vmkit.frontend.relax_script.from_relax_script(path) in place of the path; of the commands, compile, "
                "run, inspect, bench, tune and profile take it with --trust-script"
            )
        case ".vmx":
            raise ModelError(f"{path}: an executable is compiled already; vmkit.load reads it")
    raise ModelError(
        f"{path}: the suffix {path.suffix!r} is not one of .onnx, .pt2, .tflite, .mlir, .relay, .txt, .json, "
        ".json.gz, .relax, .py"
    )


def _refuse(shapes: Mapping[str, Sequence[Any]] | None) -> None:
    if shapes is not None:
        raise ModelError("shapes are for ONNX and TFLite models; a module declares the shapes of its parameters itself")


def is_read_onnx(model: Any) -> bool:
    """Say whether a model is what :func:`vmkit.frontend.onnx.load.read_model` returns, without importing onnx."""
    return _is_of(model, "vmkit.frontend.onnx.load", "Loaded")


def _is_of(model: Any, module: str, name: str) -> bool:
    """Say whether a model is of a class, without importing its module."""
    return any((cls.__module__, cls.__name__) == (module, name) for cls in type(model).mro())


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: expected text in UTF-8, but {error}") from error


def _unzipped_text_of(path: Path) -> str:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return file.read()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: expected compressed text in UTF-8, but {error}") from error


def _from_json(path: Path, text: str) -> tvm.IRModule:
    from ..relay.json import load_json

    try:
        module = load_json(text)
    except ModelError as error:
        raise type(error)(f"{path}: {error}") from error
    if isinstance(module, Function):
        return tvm.IRModule({"main": module})
    if not isinstance(module, tvm.IRModule):
        raise ModelError(f"{path}: expected a tvm.IRModule or a relay.Function, got {type(module).__name__}")
    return module


def _from_onnx(model: Any, shapes: Mapping[str, Sequence[Any]] | None) -> tuple[tvm.IRModule, Mapping[str, Any]]:
    # The onnx package takes longer to import than a small program to compile.
    from ..frontend.onnx import from_onnx
    from ..frontend.onnx.folder import sole_file

    return from_onnx(sole_file(model), shape=dict(shapes) if shapes is not None else None)
