"""``vmkit run``: an executable, or a model compiled on the spot, on inputs from a file or made up."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._dataclasses import dataclass
from ..errors import InputError, OptionError
from .arguments import add_cache, add_config, add_inputs, add_json, add_trust, existing, positive
from .exit_code import ExitCode
from .files import executable_of, inputs_of, named_outputs, write_arrays
from .profile import shown_table
from .remote import add_tracker, machine_there, tracker_of
from .tvmc.package_file import is_library_format

if TYPE_CHECKING:
    import numpy as np
    from tvm.runtime.module import BenchmarkResult

    from vmkit.executable.executable import Executable
    from vmkit.profiling import Report
    from vmkit.runtime.machine import VirtualMachine
    from vmkit.runtime.remote import RemoteMachine

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit run``."""
    parser.add_argument(
        "file",
        type=existing,
        help="an executable or a package (.vmx, .tar; running it runs its code), an archive of the Model Library "
        "Format (.tar; likewise, built by the C compiler), or a model, compiled first",
    )
    add_inputs(parser)
    parser.add_argument("--target", default="native", help="what a model is compiled for (default: %(default)s)")
    add_cache(parser)
    add_tracker(parser)
    parser.add_argument("-o", "--outputs", type=Path, metavar="FILE", help="write the outputs by name (.npz)")
    parser.add_argument("--print-top", type=positive, metavar="N", help="print places and values of the N largest")
    parser.add_argument("--print-time", action="store_true", help="print what calls took")
    parser.add_argument("--repeat", type=positive, default=10, help="measurements (default: %(default)s)")
    parser.add_argument("--number", type=positive, default=1, help="calls a measurement (default: %(default)s)")
    parser.add_argument("--end-to-end", action="store_true", help="time copies of inputs and outputs, too")
    parser.add_argument("--profile", action="store_true", help="print what each kernel of a call takes")
    add_trust(parser)
    add_config(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Run the program once, and measure it if asked to."""
    if arguments.file.suffix == ".tar" and is_library_format(arguments.file):
        return _run_archive(arguments)
    executable = executable_of(arguments, arguments.cache)
    inputs = inputs_of(arguments, executable.signature)
    values = list(inputs.values())
    machine, device = _machine(executable, arguments)
    outputs = named_outputs(machine.run(*values), executable)
    if arguments.outputs:
        write_arrays(arguments.outputs, outputs)
    measured = {"repeat": arguments.repeat, "number": arguments.number, "end_to_end": arguments.end_to_end}
    timing = machine.benchmark(device, *values, **measured) if arguments.print_time else None
    report = _profile(executable, values, arguments) if arguments.profile else None
    _tell(_Results(inputs, outputs, timing, report), arguments)
    return ExitCode.OK


def _profile(executable: Executable, values: list[Any], arguments: argparse.Namespace) -> Report:
    from vmkit.profiling import VirtualMachineProfiler

    kind = arguments.device or executable.device_kind or "cpu"
    return VirtualMachineProfiler(executable, kind, num_threads=arguments.num_threads).profile(*values)


def _machine(executable: Executable, arguments: argparse.Namespace) -> tuple[VirtualMachine | RemoteMachine, Any]:
    """Return what runs a program, here or on a device that a tracker lends, and the device."""
    from vmkit.runtime.machine import VirtualMachine

    kind, where = arguments.device or executable.device_kind or "cpu", tracker_of(arguments)
    if where is None:
        machine = VirtualMachine(executable, kind, num_threads=arguments.num_threads)
        return machine, machine.devices[0]
    if arguments.profile or arguments.num_threads is not None:
        raise OptionError("--profile, --num-threads: a program on another machine cannot be watched or set from here")
    return machine_there(executable, kind, where)


def _run_archive(arguments: argparse.Namespace) -> ExitCode:
    """Build the model of an archive for this machine, run it, and measure it if asked to."""
    from tvm.runtime.module import BenchmarkResult

    from vmkit.mlf import load

    if arguments.trust_script:
        raise OptionError(f"--trust-script is for Relax scripts, and {arguments.file} is an archive of C")
    if arguments.device not in (None, "cpu") or arguments.num_threads not in (None, 1):
        raise InputError(f"{arguments.file}: its C runs on the cpu, in one thread")
    if arguments.profile or arguments.rpc_tracker or arguments.rpc_key or arguments.cache:
        raise OptionError(f"{arguments.file}: its C is built and run here: no --profile, --rpc-tracker or --cache")
    model = load(arguments.file).build()
    inputs = inputs_of(arguments, model.signature)
    values = list(inputs.values())
    outputs = dict(zip([spec.name for spec in model.signature.outputs], model.run(*values), strict=True))
    if arguments.outputs:
        write_arrays(arguments.outputs, outputs)
    measured = model.seconds(values, arguments.repeat, arguments.number) if arguments.print_time else None
    timing = None if measured is None else BenchmarkResult(measured)
    _tell(_Results(inputs, outputs, timing), arguments)
    return ExitCode.OK


@dataclass(frozen=True)
class _Results:
    """What is told of a run."""

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    timing: BenchmarkResult | None
    report: Report | None = None


def _tell(results: _Results, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(_facts(results, arguments), indent=2))
    else:
        _print(results, arguments)


def _top(array: np.ndarray, count: int) -> list[tuple[int, float]]:
    flat = array.ravel()
    return [(int(place), flat[place].item()) for place in (-flat.astype("float64")).argsort(kind="stable")[:count]]


def _facts(results: _Results, arguments: argparse.Namespace) -> dict[str, Any]:
    facts: dict[str, Any] = {
        side: {name: {"dtype": str(array.dtype), "shape": array.shape} for name, array in arrays.items()}
        for side, arrays in (("inputs", results.inputs), ("outputs", results.outputs))
    }
    if arguments.print_top:
        facts["top"] = {name: _top(array, arguments.print_top) for name, array in _numbers(results.outputs).items()}
    if results.timing is not None:
        facts["seconds"] = {each: getattr(results.timing, each) for each in ("mean", "median", "max", "min", "std")}
        facts["seconds"]["results"] = list(results.timing.results)
    if results.report is not None:
        facts["profile"] = json.loads(results.report.json())
    return facts


def _numbers(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in outputs.items() if array.size and array.dtype.kind in "biuf"}


def _print(results: _Results, arguments: argparse.Namespace) -> None:
    for name, array in results.outputs.items():
        print(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]")
    if arguments.print_top:
        for name, array in _numbers(results.outputs).items():
            print(f"largest of {name}:")
            for place, value in _top(array, arguments.print_top):
                print(f"  {place:8d}  {value:g}")
    if results.timing is not None:
        print(results.timing)
    if results.report is not None:
        print(shown_table(results.report), end="")
