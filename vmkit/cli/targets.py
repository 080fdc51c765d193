"""``vmkit targets``: what can be compiled for, and what this machine is."""

from __future__ import annotations

import argparse
import json

from .arguments import add_json
from .exit_code import ExitCode

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit targets``."""
    parser.add_argument("kind", nargs="?", help="list the options of one kind of target")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the kinds of targets and their options, and what ``native`` and ``portable`` are here."""
    from tvm.target import TargetKind

    from vmkit.errors import TargetError, suggest
    from vmkit.target import canonical_target, command_line
    from vmkit.target.families import PORTABLE
    from vmkit.target.options import NATIVE, code_generators

    kinds = list(code_generators())
    if arguments.kind is not None and arguments.kind not in kinds:
        raise TargetError(f"there is no target {arguments.kind!r}{suggest(arguments.kind, kinds)}")
    if arguments.kind is not None:
        options = {str(name): str(kind) for name, kind in TargetKind.options_from_name(arguments.kind).items()}
        text = "\n".join(f"  -{name}  {kind}" for name, kind in sorted(options.items()))
        print(json.dumps(options, indent=2) if arguments.json else f"{arguments.kind}\n{text}")
        return ExitCode.OK
    named = {name: command_line(canonical_target(name).primary) for name in (NATIVE, PORTABLE)}
    if arguments.json:
        print(json.dumps({"kinds": kinds, **named}, indent=2))
    else:
        texts = [f"{name}: {text}" for name, text in named.items()]
        print("\n".join([*texts, "kinds:", *(f"  {kind}" for kind in kinds)]))
    return ExitCode.OK
