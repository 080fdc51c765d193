"""``tvm.driver.tvmc.main``: the command line of tvmc, with its exit codes."""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from ..._version import __version__
from ...compat.build_choices import Executor, Runtime
from ...errors import VMKitError
from ..arguments import Parser, add_shapes, listed, positive
from . import autotuner, compiler, frontends, option_states, runner
from .config_options import read_and_convert_json_into_dict, set_json_config_values
from .exceptions import TVMCException, TVMCImportError, one_line
from .registry import generate_registry_args
from .target import generate_target_args
from .transform import generate_transform_args

__all__ = ["COMMANDS", "all_parsers", "main", "parsers", "run_words"]

Parsers: TypeAlias = dict[str, argparse.ArgumentParser]

SCRIPT = Path(__file__).parent / "script" / "tvmc.py"

_CODES = "Exit codes: 0 done; 1 no command, or an error inside; 2 wrong arguments; 4 cannot be done; 5 lacks a package"


def main() -> int:
    """Run the command line of this process, and return the exit code."""
    return run_words(sys.argv[1:], "tvmc")


def _main(argv: Sequence[str]) -> int:
    """Run a command line, and return the exit code; the name that TVM 0.14 had for it."""
    return run_words(argv, "tvmc")


def run_words(words: Sequence[str], program: str) -> int:
    """Run the words of a command line, and return the exit code.

    Parameters
    ----------
    words : sequence of str
        What stands behind the name of the program.
    program : str
        That name, for ``--help``.
    """
    parser, commands = all_parsers(program)
    verbose = 0
    try:
        _set_defaults(words, commands)
        args = parser.parse_args(words)
        verbose = args.verbose
        logging.getLogger("TVMC").setLevel(max(logging.WARNING - 10 * verbose, logging.DEBUG))
        logging.basicConfig(stream=sys.stderr, format="%(levelname)s: %(message)s")
        return _run(args, parser, commands)
    except TVMCImportError as error:
        return _fail(error, 5, verbose)
    except (VMKitError, OSError) as error:
        return _fail(error, 4, verbose)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _fail(error, 1, verbose, f"internal error: {type(error).__name__}: {error}")


def _run(
    args: argparse.Namespace, parser: argparse.ArgumentParser, commands: dict[str, argparse.ArgumentParser]
) -> int:
    if args.script:
        print(SCRIPT)
        return 0
    if args.options:
        print(option_states.table(commands, args.json))
        return 0
    if args.command is None:
        parser.print_help(sys.stderr)
        return 1
    if args.command == "micro":
        raise TVMCException(f"micro: {option_states.STATES['micro'][''].note}")
    command = commands[args.command]
    option_states.check_options(args.command, args, {action.dest: action.default for action in command._actions})
    run: Callable[[argparse.Namespace], int] = COMMANDS[args.command][2]
    return run(args)


def _fail(error: BaseException, code: int, verbose: int, text: str | None = None) -> int:
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    sys.stderr.write(f"Error: {text or one_line(error)}\n")
    return code


def parsers() -> Parsers:
    """Return the parser of each command."""
    return all_parsers("tvmc")[1]


def all_parsers(program: str) -> tuple[argparse.ArgumentParser, Parsers]:
    """Return the parser of the options before a command, and that of each command."""
    shared = Parser(add_help=False)
    shared.add_argument("-v", "--verbose", action="count", default=argparse.SUPPRESS, help="say more; -vv all there is")
    parser: argparse.ArgumentParser = Parser(
        prog=program,
        description="Compile, tune and run models, as TVM 0.14's tvmc did.",
        epilog=_CODES,
        parents=[shared],
    )
    parser.set_defaults(verbose=0)
    parser.add_argument("--version", action="version", version=f"tvmc of vmkit {__version__}")
    parser.add_argument("--script", action="store_true", help="print the path of this command as a script file")
    parser.add_argument("--options", action="store_true", help="print what each option of tvmc and mlonmcu does today")
    parser.add_argument("--json", action="store_true", help="print --options as JSON")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands: Parsers = {}
    for name, (summary, add_arguments, _) in COMMANDS.items():
        commands[name] = subparsers.add_parser(
            name, help=summary, description=f"{summary.capitalize()}.", parents=[shared]
        )
        commands[name].add_argument("--config", metavar="FILE", help="options out of a JSON file, or of its name")
        add_arguments(commands[name])
    subparsers.add_parser("micro", help="gone from TVM", add_help=False).add_argument("rest", nargs=argparse.REMAINDER)
    return parser, commands


def _set_defaults(words: Sequence[str], commands: Parsers) -> None:
    """Make the options in the file of ``--config`` the defaults of the command."""
    command = next((word for word in words if word in commands), None)
    only = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    only.add_argument("--config")
    known, _ = only.parse_known_args([word for word in words if word != command])
    if command is not None and known.config is not None:
        set_json_config_values(commands[command], read_and_convert_json_into_dict(known))


def _add_compile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("FILE", help="the model")
    parser.add_argument("-o", "--output", default="module.tar", help="the package (default: %(default)s)")
    parser.add_argument(
        "-f", "--output-format", choices=("so", "mlf"), default="so", help="a package, or C in an archive"
    )
    parser.add_argument("--cross-compiler", default="", help="what links kernels for another machine")
    parser.add_argument("--cross-compiler-options", default="", help="options of that command")
    parser.add_argument(
        "--dump-code", type=listed, default=[], metavar="FORMATS", help="stages to write: relay,relax,tir,ll,asm,c ..."
    )
    parser.add_argument("--dump-offloads", default="", metavar="FILE", help="what code generators get; - prints it")
    parser.add_argument("-O", "--opt-level", type=int, choices=range(5), default=3, help="default: %(default)s")
    parser.add_argument("--pass-config", action="append", default=[], metavar="NAME=VALUE", help="an option of a pass")
    parser.add_argument("--disabled-pass", type=listed, default=[], metavar="NAMES", help="passes to leave out")
    parser.add_argument("--print-pass-times", action="store_true", help="print what each pass took")
    parser.add_argument("--module-name", default="default", help="a part of names of functions (default: %(default)s)")
    parser.add_argument("--tuning-records", metavar="PATH", help="what tvmc tune wrote, or a folder of MetaSchedule's")
    parser.add_argument("--relay-params", metavar="FILE", help="weights by name: .npz, or Relay's .params")
    for name in option_states.POOLS:
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    _add_model(parser)
    generate_registry_args(parser, Executor)
    generate_registry_args(parser, Runtime)


def _add_model(parser: argparse.ArgumentParser) -> None:
    """Add what compiling and tuning have in common."""
    names = frontends.get_frontend_names()
    parser.add_argument("--model-format", choices=names, help="by default what the suffix says")
    add_shapes(parser)
    generate_transform_args(parser)
    generate_target_args(parser)


def _add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("FILE", help="the model")
    parser.add_argument("-o", "--output", required=True, help="the file of records")
    parser.add_argument("--early-stopping", type=positive, help="leave a kernel after so many that were no better")
    parser.add_argument("--min-repeat-ms", type=int, help="milliseconds that a measurement takes at least")
    parser.add_argument("--number", type=positive, default=10, help="calls of a measurement (default: %(default)s)")
    parser.add_argument("--repeat", type=positive, default=1, help="measurements of a schedule (default: %(default)s)")
    parser.add_argument("--timeout", type=positive, default=10, help="seconds for a schedule (default: %(default)s)")
    parser.add_argument("--parallel", type=positive, default=4, help="how many devices TVM 0.14 used at a time")
    parser.add_argument("--rpc-key", help="the key of the tracker's devices to measure on")
    parser.add_argument("--rpc-tracker", metavar="HOST:PORT", help="an RPC tracker; the port is 9090 by default")
    parser.add_argument("--target-host", help="the host that drives a device")
    parser.add_argument(
        "--trials", type=positive, default=10000, help="schedules to measure in all (default: %(default)s)"
    )
    parser.add_argument("--tuner", choices=autotuner.TUNERS, default="xgb", help="the search that AutoTVM had")
    parser.add_argument("--tuning-records", metavar="PATH", help="records that are known already")
    parser.add_argument("--tasks", default="all", help="which kernels: all, list, or places such as 0,2-5")
    parser.add_argument("--enable-autoscheduler", action="store_true", help="search further with MetaSchedule")
    parser.add_argument("--num-cores", type=positive, help="of the target")
    for name in option_states.HARDWARE:
        parser.add_argument(f"--{name}", type=int, help=argparse.SUPPRESS)
    for name in ("include-simple-tasks", "log-estimated-latency"):
        parser.add_argument(f"--{name}", action="store_true", help=argparse.SUPPRESS)
    _add_model(parser)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("PATH", help="the package; running it runs its code")
    parser.add_argument("--device", choices=runner.DEVICES, default="cpu", help="where to run (default: %(default)s)")
    parser.add_argument(
        "--fill-mode", choices=("zeros", "ones", "random"), default="random", help="what inputs that are not given hold"
    )
    parser.add_argument("-i", "--inputs", metavar="FILE", help="inputs by name (.npz)")
    parser.add_argument("-o", "--outputs", metavar="FILE", help="write the outputs (.npz)")
    add_shapes(parser)
    parser.add_argument("--print-time", action="store_true", help="print what calls took")
    parser.add_argument("--print-top", type=positive, metavar="N", help="print places and values of the N largest")
    parser.add_argument("--profile", action="store_true", help="print what each kernel took")
    parser.add_argument("--end-to-end", action="store_true", help="time copies of inputs and outputs, too")
    parser.add_argument("--repeat", type=positive, default=1, help="measurements (default: %(default)s)")
    parser.add_argument("--number", type=positive, default=1, help="calls of a measurement (default: %(default)s)")
    parser.add_argument("--rpc-key", help="the key of the tracker's devices")
    parser.add_argument("--rpc-tracker", metavar="HOST:PORT", help="an RPC tracker; the port is 9090 by default")
    parser.add_argument("--list-options", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--project-option", nargs="+", help=argparse.SUPPRESS)


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]] = {
    "compile": ("compile a model to a package", _add_compile, lambda args: compiler.drive_compile(args)),
    "run": ("run a package", _add_run, lambda args: runner.drive_run(args)),
    "tune": ("measure schedules of a model's kernels", _add_tune, lambda args: autotuner.drive_tune(args)),
}
"""By name: what a command does, its arguments, and what runs it."""
