"""The ``vmkit`` command: one module a sub-command, found in one table.

A sub-command's module has ``add_arguments(parser)`` and ``run(arguments)``, which returns an :class:`ExitCode`. It is
imported only when its command is given, and imports TVM and onnx only when it runs, so that ``vmkit --help`` is quick.
``vmkit tvmc`` has commands, options and exit codes of its own: it takes over the words behind it.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from vmkit._version import __version__
from vmkit.cli.arguments import Parser, set_defaults
from vmkit.cli.exit_code import ExitCode
from vmkit.errors import VMKitError

__all__ = ["COMMANDS", "ExitCode", "main", "top_level"]

COMMANDS = {
    "compile": "compile a model to an executable",
    "run": "run an executable, or a model, on inputs from a file or made up",
    "inspect": "show what is in an executable or a model, without running any of it",
    "convert": "write a model of any form as a Relay program, in text or JSON",
    "targets": "list what can be compiled for, and what this machine is",
    "verify": "compare a model with onnxruntime, or with the reference of ONNX",
    "bench": "time a model at several shapes and numbers of threads, beside peers",
    "tune": "measure what is the fastest for the kernels of a model, into a file of records",
    "profile": "say where the time of a call goes, kernel by kernel",
    "cache": "list or remove the executables that vmkit.compile(..., cache=True) keeps on disk",
    "tvmc": "compile, tune and run models as TVM 0.14's tvmc did, with its arguments and packages",
    "check": "say what an ONNX model takes and gives, what is dynamic in it and what is not supported",
    "completion": "print what bash and zsh need to complete these commands",
    "demo": "compile the small model that ships with vmkit, save it, load it and run it at two batch sizes",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default the process's own, and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        # At its end the interpreter searches all that was imported for garbage, three times: a third of a short run.
        atexit.register(gc.freeze)
    if words[:1] == ["tvmc"]:
        return int(_module("tvmc").take_over(words[1:]))
    parser, command = _parser(words)
    verbose = 0
    try:
        if command is not None:
            set_defaults(command, words)
        options, unknown = parser.parse_known_args(words, argparse.Namespace(verbose=0))
        if unknown:
            (command or parser).refuse(unknown)
        verbose = options.verbose
        logging.basicConfig(level=_log_level(verbose), format="%(name)s: %(message)s", stream=sys.stderr)
        return int(_module(options.command).run(options))
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever reads it has seen enough; without this, Python would say so once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except (VMKitError, OSError) as error:
        return _report(error, ExitCode.MODEL, str(error), verbose)
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error}\nrun again with -v for the traceback"
        return _report(error, ExitCode.INTERNAL, text, verbose)


def top_level() -> argparse.ArgumentParser:
    """Return the parser of the options before a command."""
    return _parser(())[0]


def _parser(words: Sequence[str]) -> tuple[Parser, Parser | None]:
    """Return the parser of all commands, in which the one that is given has its arguments, and that one's own."""
    shared = Parser(add_help=False)
    shared.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="say more on stderr, with tracebacks; -vv for all there is",
    )
    parser = Parser(
        prog="vmkit",
        description="Compile models once, with dynamic shapes, and run them on TVM's virtual machine.",
        epilog="Exit codes: " + "; ".join(f"{int(code)} {code.meaning}" for code in ExitCode),
        parents=[shared],
    )
    parser.add_argument("--version", action="version", version=f"vmkit {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    given = next((word for word in words if word in COMMANDS), None)
    chosen = None
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary.capitalize() + ".", parents=[shared])
        if name == given and name != "tvmc":
            _module(name).add_arguments(command)
            chosen = command
    return parser, chosen


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"vmkit.cli.{command}")


def _log_level(verbose: int) -> int:
    return (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]


def _report(error: BaseException, code: ExitCode, text: str, verbose: int) -> int:
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    print(f"vmkit: {text}", file=sys.stderr)
    return code
