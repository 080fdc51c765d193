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
from .arguments import add_json, add_shapes, shapes_of
from .exit_code import ExitCode
from .progress import compiling

if TYPE_CHECKING:
    from vmkit.executable.overview import Overview

__all__ = ["add_arguments", "run"]

_OF_MODELS = ("relay", "relax", "tir", "ll", "asm", "c")
_VIEWS = ("summary", "operators", "kernels", "memory", "bytecode", "constants", *_OF_MODELS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit inspect``."""
    parser.add_argument("file", type=Path, help="an executable (.vmx), none of whose code is run, or a model")
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        default="summary",
        help="what to print; relay, relax, tir, ll, asm and c are of models, which are compiled for all views but "
        "summary, operators and relay (default: %(default)s)",
    )
    parser.add_argument("--target", default="native", help="what to compile a model for (default: %(default)s)")
    add_shapes(parser)
    parser.add_argument(
        "--html",
        type=Path,
        metavar="PAGE",
        help="write a model's graph as one HTML page, with search, scopes that open and close, shapes and attributes",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print what was asked for, or write the page."""
    if arguments.html is not None:
        _write_page(arguments.file, arguments.html)
        return ExitCode.OK
    if arguments.file.suffix != ".vmx":
        print(_of_model(arguments))
        return ExitCode.OK
    if arguments.view in _OF_MODELS:
        raise ModelError(f"--view {arguments.view} is of models; an executable keeps its bytecode: --view bytecode")
    from vmkit.executable.overview import overview

    seen = overview(arguments.file)
    whole = arguments.json and arguments.view == "summary"
    text = json.dumps(seen.to_json(), indent=2) if whole else _shown(_view(seen, arguments.view), arguments.json)
    print(text)
    return ExitCode.OK


def _shown(lines: str, as_json: bool) -> str:
    return json.dumps(lines.splitlines(), indent=2) if as_json else lines


def _write_page(model: Path, page: Path) -> None:
    from vmkit.pages import graph_page

    if model.suffix == ".vmx":
        raise ModelError("--html draws models; an executable has its bytecode: --view bytecode")
    text = graph_page(model)
    page.write_text(text, encoding="utf-8")
    print(f"wrote {page}")


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


def _of_model(arguments: argparse.Namespace) -> str:
    """Return a view of a model: of what it is, or of what it is compiled to."""
    import vmkit

    if arguments.view in ("summary", "operators"):
        report = vmkit.check(arguments.file, shapes=shapes_of(arguments))
        told = report.to_json()
        if arguments.view == "operators":
            return json.dumps(told["operators"], indent=2) if arguments.json else _counted(report.operators)
        return json.dumps(told, indent=2) if arguments.json else str(report)
    from vmkit.compiler.dumps import Dumps
    from vmkit.compiler.models import to_module

    mod, params = to_module(arguments.file, shapes=shapes_of(arguments))
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
        return _shown(_view(overview(file), arguments.view), arguments.json)
