"""``vmkit check``: what would become of an ONNX model or a TFLite file, without compiling it."""

from __future__ import annotations

import argparse
import json

from .arguments import add_json, add_shapes, existing, shapes_of
from .exit_code import ExitCode

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit check``."""
    parser.add_argument("model", type=existing, help="an ONNX or TFLite file")
    add_shapes(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the report; ``MODEL`` if the model cannot be compiled."""
    import vmkit

    report = vmkit.check(arguments.model, shapes=shapes_of(arguments))
    print(json.dumps(report.to_json(), indent=2) if arguments.json else report)
    return ExitCode.OK if report.is_supported else ExitCode.MODEL
