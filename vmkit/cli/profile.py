"""``vmkit profile``: where the time of a call goes, kernel by kernel."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import OptionError
from .arguments import add_config, add_inputs, add_json, add_trust, existing
from .exit_code import ExitCode
from .files import executable_of, inputs_of

if TYPE_CHECKING:
    from vmkit.profiling import Report

__all__ = ["add_arguments", "run", "shown_table"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit profile``."""
    parser.add_argument(
        "file",
        type=existing,
        help="a model, compiled first, whose kernels are told apart, each with the nodes of the model that it is for; "
        "or an executable (.vmx, .tar; running it runs its code), whose kernel groups are rows",
    )
    add_inputs(parser)
    parser.add_argument("--target", default="native", help="what a model is compiled for (default: %(default)s)")
    parser.add_argument("--order", action="store_true", help="a row for each call, as they came, not the longest first")
    parser.add_argument(
        "--by-operator", action="store_true", help="a row for the kernels of the same operators, whatever their shapes"
    )
    parser.add_argument(
        "--by-node", action="store_true", help="a row for the kernels of the same nodes of the model, named by these"
    )
    parser.add_argument("--csv", action="store_true", help="print comma-separated values")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for chrome://tracing and Perfetto")
    parser.add_argument("--html", type=Path, metavar="PAGE", help="write bars and a timeline as one HTML page")
    add_trust(parser)
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Print the report of one call."""
    _require_one_order(arguments)
    from vmkit.compiler.options import PassContext
    from vmkit.profiling import VirtualMachineProfiler

    with PassContext(config={"relay.frontend.fill_span": True}):
        executable = executable_of(arguments)
    if arguments.by_node and not (executable.profiling and executable.profiling.nodes):
        raise OptionError(f"--by-node: {arguments.file} does not say of which nodes its kernels are; profile the model")
    inputs = inputs_of(arguments, executable.signature)
    device = arguments.device or executable.device_kind or "cpu"
    machine = VirtualMachineProfiler(executable, device, num_threads=arguments.num_threads)
    report = machine.profile(*inputs.values())
    if arguments.trace:
        arguments.trace.write_text(report.chrome_trace(), encoding="utf-8")
    if arguments.html:
        from vmkit.pages import profile_page

        arguments.html.write_text(profile_page(report, arguments.file.name), encoding="utf-8")
    if arguments.json:
        print(report.json())
    elif arguments.csv:
        print(report.csv(), end="")
    else:
        sums = {"by_operator": arguments.by_operator, "by_node": arguments.by_node}
        print(shown_table(report, order=arguments.order, **sums), end="")
    return ExitCode.OK


def _require_one_order(arguments: argparse.Namespace) -> None:
    chosen = [f"--{name.replace('_', '-')}" for name in ("order", "by_operator", "by_node") if getattr(arguments, name)]
    if len(chosen) > 1:
        raise OptionError(f"{' and '.join(chosen)} say what a row is in different ways; leave all but one of them out")


def shown_table(report: Report, *, order: bool = False, by_operator: bool = False, by_node: bool = False) -> str:
    """Return a report as lines, which end where a terminal does.

    Parameters
    ----------
    report : Report
        What a profiled call did.
    order : bool
        Whether there is a row for each call, as they came, not the longest first.
    by_operator : bool
        Whether there is a row for the kernels of the same operators.
    by_node : bool
        Whether there is a row for the kernels of the same nodes of the model.
    """
    from vmkit.profiling.report import BYTES, COUNT, NAME, NODES, PERCENT, RATE, SHAPES, TIME

    nodes = [NODES] if any(NODES in row for row in report.calls) else []
    columns = [NAME, TIME, PERCENT, COUNT, RATE, BYTES, *([] if by_operator or by_node else [*nodes, SHAPES])]
    text = report.table(not order, not order, columns=columns, by_operator=by_operator, by_node=by_node)
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "".join(f"{line[:width]}\n" for line in text.splitlines())
