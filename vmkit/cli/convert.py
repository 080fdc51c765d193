"""``vmkit convert``: a model of any form as a Relay program's file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .arguments import add_json, add_shapes, existing, shapes_of
from .exit_code import ExitCode

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit convert``."""
    parser.add_argument("model", type=existing, help="a model of any form that vmkit compile takes")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the Relay program, with its weights: .relay or .txt for text, .json or .json.gz for JSON",
    )
    add_shapes(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Write the file, and say what is in it."""
    from vmkit.compiler.convert import convert

    mod = convert(arguments.model, arguments.output, shapes=shapes_of(arguments))
    told = {
        "file": str(arguments.output),
        "bytes": arguments.output.stat().st_size,
        "functions": sorted(gvar.name_hint for gvar in mod.functions),
    }
    text = f"wrote {told['file']}: {told['bytes']:,} bytes, functions {', '.join(told['functions'])}"
    print(json.dumps(told, indent=2) if arguments.json else text)
    return ExitCode.OK
