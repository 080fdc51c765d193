"""``vmkit compile``: a model into an executable, and what it was on the way."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ..errors import OptionError
from ..isolation import Limits, run_isolated
from .arguments import (
    add_cache,
    add_config,
    add_graph_changes,
    add_json,
    add_shapes,
    add_target,
    add_target_options,
    add_trust,
    existing,
    key_and_value,
    listed,
    positive,
)
from .exit_code import ExitCode
from .progress import compiling

if TYPE_CHECKING:
    from .compiling import Report

__all__ = ["add_arguments", "run"]

_COMPILED = "vmkit.cli.compiling:compiled"
_FORMATS = ("vmx", "portable", "so", "tar", "mlf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit compile``."""
    parser.add_argument(
        "model",
        type=existing,
        help="an ONNX, Relay, .pt2, .tflite or .mlir file, a folder with one, or a Relax script with --trust-script",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="what is written (default: MODEL.vmx)")
    parser.add_argument(
        "-f",
        "--output-format",
        choices=_FORMATS,
        help="an executable; one for any processor of a family, whose kernels are compiled when it is loaded; a shared "
        "library, which TVM's runtime loads without vmkit; a package of tvmc's; or C99 in the Model Library Format "
        "(default: what the suffix of FILE says, else vmx)",
    )
    parser.add_argument("--module-name", default="default", metavar="NAME", help="what names in the C contain")
    add_target(parser)
    add_target_options(parser)
    add_shapes(parser)
    parser.add_argument("--params", type=Path, metavar="FILE", help="weights by name: .npz, or Relay's .params")
    parser.add_argument(
        "-O",
        "--opt-level",
        type=int,
        choices=range(5),
        default=2,
        help="0: every operator by itself; 1: without what takes longest to compile, a kernel for "
        "each size of convolutions; 2 and more: all (default: %(default)s)",
    )
    parser.add_argument("--pass-config", type=key_and_value, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--disabled-pass", type=listed, default=[], metavar="NAMES", help="passes to leave out")
    parser.add_argument("--required-pass", type=listed, default=[], metavar="NAMES", help="passes to run at any level")
    add_graph_changes(parser)
    parser.add_argument(
        "--tuning-records", type=Path, action="append", default=[], metavar="PATH", help="may be given several times"
    )
    parser.add_argument(
        "--dump-code",
        type=listed,
        default=[],
        metavar="FORMATS",
        help="write FILE.FORMAT beside the executable: relay, relax, tir (tir0 to tir2 are earlier), bytecode, ll, "
        "asm, c; or tir:PASS, the program after a pass",
    )
    parser.add_argument(
        "--dump-offloads", metavar="FILE", help="which operators each code generator of --target gets; - prints it"
    )
    parser.add_argument("--print-pass-times", action="store_true", help="print what each pass took, on stderr")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end the compilation if it takes longer (default: never)"
    )
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="compile in this process, not in one of its own, whose crash would be an error that says so",
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="cores to build kernels on (default: all)")
    add_cache(parser)
    parser.add_argument("--cross-compiler", metavar="COMMAND", help="what links kernels for another machine")
    parser.add_argument("--cross-compiler-options", default="", metavar="WORDS", help="options of that command")
    add_trust(parser)
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compile the model and write the executable."""
    limits = Limits(arguments.timeout)
    if arguments.in_process and limits.timeout is not None:
        raise OptionError("--timeout ends another process, and --in-process asks for none; leave one of them out")
    with compiling(arguments.model.name):
        if arguments.in_process:
            from .compiling import compiled

            shown = compiled(arguments)
        else:
            made = run_isolated(_COMPILED, arguments, what=f"{arguments.model} was compiled", limits=limits)
            shown = cast("Report", made)
    print(json.dumps(shown.facts, indent=2) if arguments.json else "\n".join(shown.lines))
    return ExitCode.OK
