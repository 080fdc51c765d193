"""``vmkit tune``: what decisions are the fastest for the kernels of a model, measured and kept in a file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import OptionError
from .arguments import add_config, add_json, add_shapes, add_target, add_trust, existing, listed, positive, shapes_of
from .exit_code import ExitCode
from .files import model_of
from .progress import bar
from .remote import add_tracker, tracker_of

if TYPE_CHECKING:
    from vmkit.tuning import Progress

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit tune``."""
    parser.add_argument("model", type=existing, help="a model, as for vmkit compile")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the records; goes on where it was (default: MODEL.json)"
    )
    add_target(parser)
    add_shapes(parser)
    parser.add_argument(
        "--sizes",
        type=listed,
        default=[],
        metavar="NAME=N",
        help="unknown sizes to measure at, such as n=8 (default: 16)",
    )
    parser.add_argument("--kernels", type=listed, metavar="NAMES", help="which kernels (default: all)")
    parser.add_argument("--list", action="store_true", help="print the kernels that can be tuned, and end")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each kernel (default: %(default)s)")
    parser.add_argument("--budget", type=float, help="seconds after which no kernel is begun")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds for one candidate (default: %(default)s)")
    parser.add_argument("--candidates", type=positive, help="how many are measured in all")
    parser.add_argument(
        "--trials", type=int, default=0, help="schedules of each kernel that MetaSchedule tries then, into a folder"
    )
    add_tracker(parser)
    add_trust(parser)
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure, and print what was found for each kernel."""
    from vmkit.compiler.models import to_module
    from vmkit.target import canonical_target
    from vmkit.tuning import kernels_of, tune

    mod, params = to_module(model_of(arguments.model, arguments.trust_script), shapes=shapes_of(arguments))
    target = canonical_target(arguments.target, arguments.target_host)
    if arguments.list:
        names = [kernel.name for kernel in kernels_of(mod, target.primary, params)]
        print(json.dumps(names, indent=2) if arguments.json else "\n".join(names))
        return ExitCode.OK
    output = arguments.output or Path(f"{arguments.model.stem}.json")
    with bar(1, f"{arguments.model.name}: starting", counts=False) as shown:

        def tell(progress: Progress) -> None:
            shown.say(str(progress))
            shown.to(progress.done / progress.total, f"{progress.done} of {progress.total} kernels are done")

        records = tune(
            mod,
            target,
            params,
            database=output,
            seconds=arguments.seconds,
            budget=arguments.budget,
            timeout=arguments.timeout,
            sizes=_sizes(arguments.sizes),
            trials=arguments.trials,
            tracker=tracker_of(arguments),
            kernels=arguments.kernels,
            candidates=arguments.candidates,
            progress=tell,
        )
    if not output.exists():
        records.write(output)
    found = {"output": str(output), "records": len(records)}
    print(json.dumps(found, indent=2) if arguments.json else f"{output}: {len(records)} records")
    return ExitCode.OK


def _sizes(words: list[str]) -> dict[str, int]:
    sizes = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdigit():
            raise OptionError(f"--sizes: expected NAME=N, such as batch=8, not {word!r}")
        sizes[name] = int(size)
    return sizes
