"""``vmkit inspect``: what is in an executable's file or a model, without running any of it."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ModelError
from .arguments import add_json, add_shapes, add_trust, existing, shapes_of
from .exit_code import ExitCode
from .files import model_of
from .progress import compiling
from .tvmc.package_file import is_library_format

if TYPE_CHECKING:
    import tvm

    from vmkit.executable.overview import Overview

__all__ = ["add_arguments", "run"]

_OF_MODELS = ("relay", "relax", "tir", "ll", "asm", "c")
_VIEWS = ("summary", "operators", "kernels", "memory", "bytecode", "constants", *_OF_MODELS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit inspect``."""
    parser.add_argument(
        "file",
        type=existing,
        help="an executable (.vmx) or an archive of the Model Library Format (.tar), "
        "none of whose code is run, or a model",
    )
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        default="summary",
        help="what to print; relay, relax, tir, ll, asm and c are of models, which are compiled for all views but "
        "relay, and those of ONNX but summary, operators and relay (default: %(default)s)",
    )
    parser.add_argument("--target", default="native", help="what to compile a model for (default: %(default)s)")
    add_shapes(parser)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="PAGE",
        help="write a model's graph as one HTML page, with search, scopes that open and close, shapes and attributes",
    )
    add_trust(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print what was asked for, or write the page."""
    if arguments.file.suffix == ".tar" and is_library_format(arguments.file):
        print(_of_archive(arguments))
        return ExitCode.OK
    model = model_of(arguments.file, arguments.trust_script)
    if arguments.html is not None:
        _write_page(model, arguments)
        return ExitCode.OK
    if arguments.file.suffix != ".vmx":
        print(_of_model(model, arguments))
        return ExitCode.OK
    if arguments.view in _OF_MODELS:
        raise ModelError(f"--view {arguments.view} is of models; an executable keeps its bytecode: --view bytecode")
    from vmkit.executable.overview import overview

    print(_of_executable(overview(arguments.file), arguments))
    return ExitCode.OK


def _of_archive(arguments: argparse.Namespace) -> str:
    """Return what an archive of the Model Library Format says of itself."""
    from vmkit.mlf import load

    if arguments.view != "summary" or arguments.html is not None:
        raise ModelError(f"{arguments.file}: an archive of C has --view summary alone; its files are text")
    library = load(arguments.file)
    return json.dumps(library.metadata, indent=2) if arguments.json else str(library)


def _of_executable(seen: Overview, arguments: argparse.Namespace) -> str:
    if arguments.json and arguments.view == "summary":
        return json.dumps(seen.to_json(), indent=2)
    return _shown(_view(seen, arguments.view), arguments.json)


def _shown(lines: str, as_json: bool) -> str:
    return json.dumps(lines.splitlines(), indent=2) if as_json else lines


def _write_page(model: Path | tvm.IRModule, arguments: argparse.Namespace) -> None:
    from vmkit.pages import graph_page

    if arguments.file.suffix == ".vmx":
        raise ModelError("--html draws models; an executable has its bytecode: --view bytecode")
    text = graph_page(model)
    arguments.html.write_text(text, encoding="utf-8")
    print(f"wrote {arguments.html}")


def _view(seen: Overview, view: str) -> str:
    match view:
        case "bytecode":
            return seen.listing
        case "constants":
            return seen.constants
        case "kernels":
            return "\n".join(seen.kernels)
        case "operators":
            from vmkit.profiling.operators import operators_in

            counts = Counter(operators_in(name) for name in seen.kernels)
            return _counted(counts)
        case "memory":
            from vmkit.bytecode.memory import memory_text

            return memory_text(seen.program)
    return str(seen)


def _counted(counts: Mapping[str, int]) -> str:
    """Return how many there are of each, most first."""
    width = max(map(len, counts), default=0)
    return "\n".join(f"{name:{width}}  {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))


def _of_model(model: Path | tvm.IRModule, arguments: argparse.Namespace) -> str:
    """Return a view of a model: of what it is, or of what it is compiled to."""
    import vmkit

    is_onnx = arguments.file.suffix == ".onnx" or arguments.file.is_dir()
    if is_onnx and arguments.view in ("summary", "operators"):
        report = vmkit.check(arguments.file, shapes=shapes_of(arguments))
        told = report.to_json()
        if arguments.view == "operators":
            return json.dumps(told["operators"], indent=2) if arguments.json else _counted(report.operators)
        return json.dumps(told, indent=2) if arguments.json else str(report)
    from vmkit.compiler.dumps import Dumps
    from vmkit.compiler.models import to_module

    mod, params = to_module(model, shapes=shapes_of(arguments))
    if arguments.view == "relay":
        return _shown(vmkit.relay.astext(mod, show_meta_data=False), arguments.json)
    is_dump = arguments.view in _OF_MODELS
    dumps = Dumps([arguments.view] if is_dump else [])
    with compiling(arguments.file.name), vmkit.PassContext(instruments=dumps.instruments):
        executable = vmkit.compile(mod, arguments.target, params=params)
    if is_dump:
        return _shown(dumps.texts(mod, executable)[arguments.view], arguments.json)
    with tempfile.TemporaryDirectory() as folder:
        from vmkit.executable.overview import overview

        file = Path(folder) / "model.vmx"
        executable.export(file)
        return _of_executable(overview(file), arguments)
