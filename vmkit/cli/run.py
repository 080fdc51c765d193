"""``vmkit run``: an executable, or a model compiled on the spot, on inputs from a file or made up."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .arguments import add_inputs, add_json, positive
from .exit_code import ExitCode
from .files import executable_of, inputs_of, named_outputs, write_arrays
from .tvmc.package_file import is_library_format

if TYPE_CHECKING:
    import numpy as np
    from tvm.runtime.module import BenchmarkResult

    import vmkit

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit run``."""
    parser.add_argument(
        "file",
        type=Path,
        help="an executable or a package (.vmx, .tar; running it runs its code), an archive of the Model Library "
        "Format (.tar; likewise, built by the C compiler), or a model, compiled first",
    )
    add_inputs(parser)
    parser.add_argument("-o", "--outputs", type=Path, metavar="FILE", help="write the outputs by name (.npz)")
    parser.add_argument("--print-top", type=positive, metavar="N", help="print places and values of the N largest")
    parser.add_argument("--print-time", action="store_true", help="print what calls took")
    parser.add_argument("--repeat", type=positive, default=10, help="measurements (default: %(default)s)")
    parser.add_argument("--number", type=positive, default=1, help="calls a measurement (default: %(default)s)")
    parser.add_argument("--end-to-end", action="store_true", help="time copies of inputs and outputs, too")
    add_json(parser)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Run the program once, and measure it if asked to."""
    import vmkit

    if arguments.file.suffix == ".tar" and is_library_format(arguments.file):
        return _run_archive(arguments)
    executable = executable_of(arguments.file)
    inputs = inputs_of(arguments, executable.signature)
    device = arguments.device or executable.device_kind or "cpu"
    machine = vmkit.VirtualMachine(executable, device, num_threads=arguments.num_threads)
    values = list(inputs.values())
    outputs = named_outputs(machine.run(*values), executable)
    if arguments.outputs:
        write_arrays(arguments.outputs, outputs)
    timing = _timing(machine, device, values, arguments) if arguments.print_time else None
    _tell(inputs, outputs, timing, arguments)
    return ExitCode.OK


def _run_archive(arguments: argparse.Namespace) -> ExitCode:
    """Build the model of an archive for this machine, run it, and measure it if asked to."""
    from tvm.runtime.module import BenchmarkResult

    import vmkit

    if arguments.device not in (None, "cpu") or arguments.num_threads not in (None, 1):
        raise InputError(f"{arguments.file}: its C runs on the cpu, in one thread")
    model = vmkit.mlf.load(arguments.file).build()
    inputs = inputs_of(arguments, model.signature)
    values = list(inputs.values())
    outputs = dict(zip([spec.name for spec in model.signature.outputs], model.run(*values), strict=True))
    if arguments.outputs:
        write_arrays(arguments.outputs, outputs)
    measured = model.seconds(values, arguments.repeat, arguments.number) if arguments.print_time else None
    _tell(inputs, outputs, None if measured is None else BenchmarkResult(measured), arguments)
    return ExitCode.OK


def _tell(
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    timing: BenchmarkResult | None,
    arguments: argparse.Namespace,
) -> None:
    if arguments.json:
        print(json.dumps(_facts(inputs, outputs, timing, arguments), indent=2))
    else:
        _print(outputs, timing, arguments)


def _timing(
    machine: vmkit.VirtualMachine, device: str, values: list[Any], arguments: argparse.Namespace
) -> BenchmarkResult:
    return machine.benchmark(
        device, *values, repeat=arguments.repeat, number=arguments.number, end_to_end=arguments.end_to_end
    )


def _top(array: np.ndarray, count: int) -> list[tuple[int, float]]:
    flat = array.ravel()
    return [(int(place), flat[place].item()) for place in (-flat.astype("float64")).argsort(kind="stable")[:count]]


def _facts(
    inputs: dict[str, np.ndarray],
    outputs: dict[str, np.ndarray],
    timing: BenchmarkResult | None,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "inputs": {name: {"dtype": str(array.dtype), "shape": array.shape} for name, array in inputs.items()},
        "outputs": {name: {"dtype": str(array.dtype), "shape": array.shape} for name, array in outputs.items()},
    }
    if arguments.print_top:
        facts["top"] = {name: _top(array, arguments.print_top) for name, array in _numbers(outputs).items()}
    if timing is not None:
        facts["seconds"] = {each: getattr(timing, each) for each in ("mean", "median", "max", "min", "std")} | {
            "results": list(timing.results)
        }
    return facts


def _numbers(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in outputs.items() if array.size and array.dtype.kind in "biuf"}


def _print(outputs: dict[str, np.ndarray], timing: BenchmarkResult | None, arguments: argparse.Namespace) -> None:
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}[{', '.join(map(str, array.shape))}]")
    if arguments.print_top:
        for name, array in _numbers(outputs).items():
            print(f"largest of {name}:")
            for place, value in _top(array, arguments.print_top):
                print(f"  {place:8d}  {value:g}")
    if timing is not None:
        print(timing)
