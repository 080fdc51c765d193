"""``tvm.driver.tvmc.runner``: packages on devices, here and on other machines."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import suggest
from ..files import arrays_of
from ..remote import machine_there
from .common import shapes_of
from .exceptions import TVMCException, reported
from .model import TVMCPackage, TVMCResult
from .tracker import tracker_host_port_from_cli

if TYPE_CHECKING:
    import numpy as np
    from tvm.runtime.module import BenchmarkResult

    from vmkit.executable.executable import Executable

__all__ = [
    "DEVICES",
    "drive_run",
    "generate_tensor_data",
    "get_input_info",
    "get_top_results",
    "make_inputs_dict",
    "run_module",
]

logger = logging.getLogger("TVMC")

DEVICES = ("cpu", "cuda", "cl", "opencl", "metal", "vulkan", "rocm", "webgpu", "micro")
_TODAYS_DEVICE = {"cl": "opencl"}


def run_module(
    tvmc_package: TVMCPackage,
    device: str,
    hostname: str | None = None,
    port: int | str = 9090,
    rpc_key: str | None = None,
    inputs: Mapping[str, np.ndarray] | None = None,
    fill_mode: str = "random",
    repeat: int = 10,
    number: int = 10,
    profile: bool = False,
    end_to_end: bool = False,
    options: Mapping[str, Any] | None = None,
    *,
    shapes: Mapping[str, Sequence[Any]] | None = None,
) -> TVMCResult:
    """Run a package once, measure it, and return the outputs and the times.

    Parameters
    ----------
    tvmc_package : TVMCPackage
        The package. Running it runs its code.
    device : str
        ``"cpu"``, ``"cuda"``, ``"cl"`` ...
    hostname, port, rpc_key
        Where an RPC tracker is, and the key of its devices; without a key, an RPC server.
    inputs : mapping of str to array, optional
        Inputs by name.
    fill_mode : {"random", "zeros", "ones"}
        What the others hold.
    repeat, number : int
        How many measurements there are, and how many calls each is the mean of.
    profile : bool
        Whether to print what each kernel of a call took.
    end_to_end : bool
        Whether times have copies of inputs and outputs in them.
    shapes : mapping, optional
        Shapes of inputs, and sizes, that the package leaves open and no input says.

    Raises
    ------
    TVMCException
        For an archive in the Model Library Format, and for inputs and devices that there are not.
    """
    from vmkit.executable.loading import load

    _require_runnable(tvmc_package, device, options)
    assert tvmc_package.lib_path is not None
    executable = load(tvmc_package.lib_path)
    values = _inputs_in_order(executable, inputs or {}, fill_mode, shapes)
    kind = _TODAYS_DEVICE.get(device, device)
    timing = {"repeat": repeat, "number": number, "end_to_end": end_to_end}
    if hostname:
        if profile:
            raise TVMCException("--profile: a program on another machine cannot be profiled from here")
        return _run_remotely(executable, kind, values, (hostname, int(port), rpc_key), timing)
    return _run_here(executable, kind, values, timing, profile)


def _inputs_in_order(
    executable: Executable,
    given: Mapping[str, np.ndarray],
    fill_mode: str,
    shapes: Mapping[str, Sequence[Any]] | None,
) -> list[Any]:
    from vmkit.values.filling import filled_inputs

    names = executable.signature.names
    _require_known(given, names)
    made = filled_inputs(executable.signature, shapes, _fill_mode(fill_mode), given=dict(given))
    return list(executable.signature.fit([made[name] for name in names]))


def _require_runnable(package: TVMCPackage, device: str, options: Mapping[str, Any] | None) -> None:
    if not isinstance(package, TVMCPackage):
        raise TVMCException(
            f"expected a TVMCPackage to run, not {type(package).__name__}. This model doesn't seem to have been "
            "compiled yet. Try calling tvmc.compile on the model before running it."
        )
    if device == "micro" or options:
        raise TVMCException("--device micro: microTVM's projects are gone from TVM; -f mlf writes C for any board")
    if package.type == "mlf":
        raise TVMCException(
            "You're trying to run a model saved using the Model Library Format (MLF). It is C to be built into a "
            "program; compile with -f so to run it here"
        )
    if device not in DEVICES:
        raise TVMCException(f"there is no device {device!r}{suggest(device, DEVICES)}; there are {', '.join(DEVICES)}")


def _require_known(given: Mapping[str, object], names: Sequence[str]) -> None:
    for name in given:
        if name not in names:
            raise TVMCException(
                f"the input tensor '{name}' is not in the graph{suggest(name, names)}. "
                f"Expected inputs: {', '.join(names) or 'none'}"
            )


def _run_here(
    executable: Executable, kind: str, values: Sequence[Any], timing: Mapping[str, Any], profile: bool
) -> TVMCResult:
    from vmkit.profiling import VirtualMachineProfiler
    from vmkit.runtime.machine import VirtualMachine

    if profile:
        # The report is what the command is for.
        print(VirtualMachineProfiler(executable, kind).profile(*values))
    machine = VirtualMachine(executable, kind)
    outputs = _numbered(machine.run(*values))
    return TVMCResult(outputs, machine.benchmark(machine.devices[0], *values, **timing))


def _run_remotely(
    executable: Executable,
    kind: str,
    values: Sequence[Any],
    where: tuple[str, int, str | None],
    timing: Mapping[str, Any],
) -> TVMCResult:
    with reported():
        machine, device = machine_there(executable, kind, where)
    outputs = _numbered(machine.run(*values))
    times: BenchmarkResult = machine.benchmark(device, *values, **timing)
    return TVMCResult(outputs, times)


def _numbered(result: Any) -> dict[str, np.ndarray]:  # noqa: ANN401 - whatever a program returns
    """Return the tensors of a result as tvmc names them; what is in a tuple within another follows in its place."""
    import numpy as np

    leaves: list[np.ndarray] = []

    def add(value: Any) -> None:  # noqa: ANN401
        if isinstance(value, list | tuple):
            for part in value:
                add(part)
        elif value is not None:
            leaves.append(np.asarray(value.numpy() if hasattr(value, "numpy") else value))

    add(result)
    return {f"output_{place}": leaf for place, leaf in enumerate(leaves)}


def _fill_mode(mode: str) -> Any:  # noqa: ANN401 - one of the modes
    from vmkit.values.filling import FILL_MODES

    if mode not in FILL_MODES:
        raise TVMCException(f"unknown fill-mode: {mode}{suggest(mode, FILL_MODES)}; there are {', '.join(FILL_MODES)}")
    return mode


def generate_tensor_data(shape: Sequence[int], dtype: str, fill_mode: str) -> np.ndarray:
    """Return an array for an input.

    Parameters
    ----------
    shape, dtype
        Of the array.
    fill_mode : {"random", "zeros", "ones"}
        ``"random"`` is uniform from -1 to 1, and from 0 to 127 for integers of 8 bits.

    Raises
    ------
    TVMCException
        For a mode that there is not.
    """
    import numpy as np

    from vmkit.values.filling import filled

    return filled(tuple(shape), dtype, _fill_mode(fill_mode), np.random.default_rng())


def make_inputs_dict(
    shape_dict: Mapping[str, Sequence[int]],
    dtype_dict: Mapping[str, str],
    inputs: Mapping[str, np.ndarray] | None = None,
    fill_mode: str = "random",
) -> dict[str, np.ndarray]:
    """Return an array for each input of a model: what is given, and others that are made up.

    Parameters
    ----------
    shape_dict, dtype_dict : mapping
        The shapes and data types of the inputs by name.
    inputs : mapping of str to array, optional
        What is given.
    fill_mode : {"random", "zeros", "ones"}
        What the others hold.

    Raises
    ------
    TVMCException
        For inputs that the model has not, and a mode that there is not.
    """
    _require_known(inputs or {}, list(shape_dict))
    return {
        name: (inputs or {})[name]
        if name in (inputs or {})
        else generate_tensor_data(shape, str(dtype_dict[name]), fill_mode)
        for name, shape in shape_dict.items()
    }


def get_input_info(tvmc_package: TVMCPackage) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
    """Return the shapes and the data types of a package's inputs by name; -1 is a size that is not known."""
    from vmkit.executable.loading import load
    from vmkit.values.kinds import TensorSpec

    _require_runnable(tvmc_package, "cpu", None)
    assert tvmc_package.lib_path is not None
    specs = [spec for spec in load(tvmc_package.lib_path).inputs if isinstance(spec, TensorSpec)]
    shapes = {spec.name: tuple(size if isinstance(size, int) else -1 for size in spec.shape) for spec in specs}
    return shapes, {spec.name: spec.dtype for spec in specs}


def get_top_results(result: TVMCResult, max_results: int) -> np.ndarray:
    """Return the places and the values of the largest elements in the first row of the first output, in two rows."""
    import numpy as np

    output = np.atleast_2d(result.outputs["output_0"])
    row = output.reshape(output.shape[0], -1)[0]
    labels = row.argsort(kind="stable")[::-1][:max_results]
    return np.array([labels, row[labels]])


def drive_run(args: Namespace) -> int:
    """Run ``tvmc run``, and return 0."""
    host, port = tracker_host_port_from_cli(args.rpc_tracker)
    if args.rpc_key is not None and host is None:
        raise TVMCException("--rpc-key says which devices of a tracker, but --rpc-tracker is not given")
    if args.list_options or args.project_option:
        raise TVMCException("--list-options, --project-option: microTVM's projects are gone from TVM")
    package = TVMCPackage(args.PATH)
    result = run_module(
        package,
        args.device,
        hostname=host,
        port=port or 0,
        rpc_key=args.rpc_key,
        inputs=arrays_of(Path(args.inputs)) if args.inputs else None,
        fill_mode=args.fill_mode,
        repeat=args.repeat,
        number=args.number,
        profile=args.profile,
        end_to_end=args.end_to_end,
        shapes=shapes_of(args),
    )
    if args.print_time:
        print(result.format_times())
    if args.print_top:
        print(get_top_results(result, args.print_top))
    if args.outputs:
        result.save(args.outputs)
    return 0
