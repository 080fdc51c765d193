"""``vmkit inspect``: what is in an executable's file or a model, without running any of it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ModelError
from .arguments import add_json
from .exit_code import ExitCode

if TYPE_CHECKING:
    from vmkit.executable.overview import Overview

__all__ = ["add_arguments", "run"]

_VIEWS = ("summary", "bytecode", "constants", "kernels", "relay")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit inspect``."""
    parser.add_argument("file", type=Path, help="an executable (.vmx), none of whose code is run, or a model")
    parser.add_argument(
        "--view",
        choices=_VIEWS,
        default="summary",
        help="what to print: bytecode, constants and kernels are of executables, relay is of models "
        "(default: %(default)s)",
    )
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
    from vmkit.executable.overview import overview

    if arguments.view == "relay":
        raise ModelError("--view relay is of models; an executable keeps its bytecode: --view bytecode")
    seen = overview(arguments.file)
    text = json.dumps(seen.to_json(), indent=2) if arguments.json else _view(seen, arguments.view)
    print(text)
    return ExitCode.OK


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
    return str(seen)


def _of_model(arguments: argparse.Namespace) -> str:
    import vmkit

    if arguments.view == "relay":
        from vmkit.compiler.models import to_module

        mod, _ = to_module(arguments.file)
        return vmkit.relay.astext(mod, show_meta_data=False)
    if arguments.view != "summary":
        raise ModelError(f"--view {arguments.view} is of executables; compile the model first: vmkit compile")
    report = vmkit.check(arguments.file)
    return json.dumps(report.to_json(), indent=2) if arguments.json else str(report)
