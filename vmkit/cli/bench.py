"""``vmkit bench``: what calls of a model take, at several shapes and numbers of threads, beside peers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from .arguments import add_json, add_trust, existing, listed, parsed
from .exit_code import ExitCode
from .files import model_of
from .progress import bar
from .shape_text import parse_shapes

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit bench``."""
    parser.add_argument("file", type=existing, help="an executable (.vmx; running it runs its code), or a model")
    parser.add_argument(
        "--input-shapes",
        "--shape",
        action="append",
        type=parsed(parse_shapes),
        metavar="SHAPES",
        help='shapes of all inputs, such as "x:[1,3,224,224]"; given several times, each is measured',
    )
    parser.add_argument("--threads", type=_counts, default=[1], metavar="COUNTS", help="such as 1,2,4 (default: 1)")
    parser.add_argument("--vs", type=listed, default=[], metavar="PEERS", help="onnxruntime, openvino")
    parser.add_argument("--target", default="native", help="what to compile for (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="to call each program for (default: %(default)s)")
    parser.add_argument("--calls", type=int, help="the number of calls, in place of that")
    parser.add_argument("--warm-up", type=int, default=3, help="calls that are not timed (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="a file that pytest-benchmark compare reads")
    add_trust(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the table of times."""
    from vmkit.benchmarking import benchmark

    with bar(1, f"{arguments.file.name}: compiling", counts=False, ticks=False) as shown:
        measured = benchmark(
            model_of(arguments.file, arguments.trust_script),
            arguments.input_shapes or [None],
            arguments.threads,
            peers=arguments.vs,
            target=arguments.target,
            seconds=arguments.seconds,
            calls=arguments.calls,
            warm_up=arguments.warm_up,
            progress=shown.to,
        )
    text = json.dumps(measured.to_json(), indent=2)
    if arguments.output:
        arguments.output.write_text(text, encoding="utf-8")
    print(text if arguments.json else measured)
    return ExitCode.OK


def _counts(words: str) -> list[int]:
    counts = listed(words)
    if not counts or not all(word.isdigit() and int(word) for word in counts):
        raise argparse.ArgumentTypeError(f"{words!r} is not a list of numbers above 0, such as 1,2,4")
    return [int(word) for word in counts]
