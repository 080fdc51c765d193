"""``vmkit verify``: a model compiled here against onnxruntime or ONNX's own evaluator."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .arguments import add_json, add_shapes, existing, shapes_of
from .exit_code import ExitCode
from .files import arrays_of
from .progress import compiling

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit verify``."""
    parser.add_argument("model", type=existing, help="an ONNX file")
    parser.add_argument(
        "--against",
        choices=("onnxruntime", "reference"),
        default="onnxruntime",
        help="what to compare with: onnxruntime, or ONNX's own evaluator (default: %(default)s)",
    )
    add_shapes(parser)
    parser.add_argument("-i", "--inputs", type=Path, metavar="FILE", help="inputs by name (.npz); others are random")
    parser.add_argument("--target", default="native", help="what to compile for (default: %(default)s)")
    parser.add_argument("--rtol", type=float, default=1e-3, help="default: %(default)s")
    parser.add_argument("--atol", type=float, default=1e-4, help="default: %(default)s")
    parser.add_argument(
        "--inside", action="store_true", help="compare what every node gives, to find the first to differ"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (default: %(default)s)")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the differences; ``MISMATCH`` if one is more than is allowed."""
    from vmkit.verification import verify

    with compiling(arguments.model.name):
        found = verify(
            arguments.model,
            shapes_of(arguments),
            inputs=arrays_of(arguments.inputs) if arguments.inputs else None,
            against=arguments.against,
            target=arguments.target,
            rtol=arguments.rtol,
            atol=arguments.atol,
            inside=arguments.inside,
            seed=arguments.seed,
        )
    print(json.dumps(found.to_json(), indent=2) if arguments.json else found)
    return ExitCode.OK if found.is_equal else ExitCode.MISMATCH
