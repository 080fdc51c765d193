"""``vmkit check``: what would become of an ONNX model, without compiling it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vmkit.cli.exit_code import ExitCode

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit check``."""
    parser.add_argument("model", type=Path, help="an ONNX file")
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=_shape,
        metavar="NAME:DIMS",
        help="the shape of an input, such as x:n,3,224,224; ? is an unknown size",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the report; ``MODEL`` if the model cannot be compiled."""
    import vmkit

    report = vmkit.check(arguments.model, shapes=dict(arguments.shape) or None)
    print(json.dumps(report.to_json(), indent=2) if arguments.json else report)
    return ExitCode.OK if report.is_supported else ExitCode.MODEL


def _shape(text: str) -> tuple[str, list[int | str]]:
    name, colon, dims = text.rpartition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME:DIMS, such as x:n,3,224,224")
    words = [word.strip() for word in dims.split(",")] if dims.strip() else []
    return name, [int(word) if word.lstrip("-").isdigit() else word for word in words]
