"""``vmkit compile``: a model into an executable, and what it was on the way."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..errors import OptionError
from ..isolation import Limits, run_isolated
from .arguments import add_graph_changes, add_json, add_shapes, add_target, key_and_value, listed, shapes_of
from .exit_code import ExitCode
from .files import arrays_of, write_dumps
from .tvmc.transform import apply_graph_transforms, parse_graph_transform_args

if TYPE_CHECKING:
    import tvm

    from vmkit.compiler.dumps import Dumps

__all__ = ["add_arguments", "run"]

_COMPILED = f"{__name__}:compiled"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit compile``."""
    parser.add_argument("model", type=Path, help="an ONNX, Relay, .pt2, .tflite or .mlir file, or a folder with one")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the executable (default: MODEL.vmx)")
    parser.add_argument(
        "-f",
        "--output-format",
        choices=("vmx", "portable", "mlf"),
        default="vmx",
        help="an executable, one for any processor of a family, whose kernels are compiled when it is loaded, or C99 "
        "in the Model Library Format (default: %(default)s)",
    )
    parser.add_argument("--module-name", default="default", metavar="NAME", help="what names in the C contain")
    add_target(parser)
    add_shapes(parser)
    parser.add_argument("--params", type=Path, metavar="FILE", help="weights by name: .npz, or Relay's .params")
    parser.add_argument("-O", "--opt-level", type=int, choices=range(5), default=2, help="default: %(default)s")
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
    parser.add_argument("--print-pass-times", action="store_true", help="print what each pass took, on stderr")
    parser.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end the compilation if it takes longer (default: never)"
    )
    parser.add_argument(
        "--in-process",
        action="store_true",
        help="compile in this process, not in one of its own, whose crash would be an error that says so",
    )
    parser.add_argument("--cross-compiler", metavar="COMMAND", help="what links kernels for another machine")
    parser.add_argument("--cross-compiler-options", default="", metavar="WORDS", help="options of that command")
    add_json(parser)


@dataclass(frozen=True)
class Report:
    """What is printed of a compilation: facts as ``--json`` has them, and lines for people."""

    facts: dict[str, Any]
    lines: list[str]


def run(arguments: argparse.Namespace) -> ExitCode:
    """Compile the model and write the executable."""
    limits = Limits(arguments.timeout)
    if not arguments.in_process:
        report = run_isolated(_COMPILED, arguments, what=f"{arguments.model} was compiled", limits=limits)
    elif limits.timeout is not None:
        raise OptionError("--timeout ends another process, and --in-process asks for none; leave one of them out")
    else:
        report = compiled(arguments)
    shown = cast(Report, report)
    print(json.dumps(shown.facts, indent=2) if arguments.json else "\n".join(shown.lines))
    return ExitCode.OK


def compiled(arguments: argparse.Namespace) -> Report:
    """Do all of the command but the printing."""
    import vmkit
    from vmkit.compiler.dumps import Dumps
    from vmkit.compiler.models import to_module

    suffix = "tar" if arguments.output_format == "mlf" else "vmx"
    output = arguments.output or Path(f"{arguments.model.stem}.{suffix}")
    dumps = Dumps(arguments.dump_code)
    start = time.perf_counter()
    mod, params = to_module(arguments.model, shapes=shapes_of(arguments))
    mod = apply_graph_transforms(mod, parse_graph_transform_args(arguments))
    if arguments.output_format == "mlf":
        return _export(mod, params, arguments, output)
    portable = arguments.output_format == "portable"
    target = "portable" if portable and arguments.target == "native" else arguments.target
    with _options(arguments, dumps):
        executable = vmkit.compile(mod, target, arguments.target_host, {**params, **_weights(arguments)})
    executable.export(output, _linker(arguments), portable=portable)
    seconds = time.perf_counter() - start
    files = write_dumps(dumps.texts(mod, executable), output)
    size, signature, paths = output.stat().st_size, str(executable.signature), [str(path) for path in files]
    facts = {
        "output": str(output),
        "bytes": size,
        "seconds": round(seconds, 3),
        "target": str(executable.target),
        "signature": signature,
        "kernels": dict(executable.info.kernels or {}),
        "dumps": paths,
    }
    return Report(facts, [f"{output}: {size / 1024:,.0f} KiB, compiled in {seconds:.1f} s", signature, *paths])


def _export(mod: tvm.IRModule, params: Mapping[str, Any], arguments: argparse.Namespace, output: Path) -> Report:
    """Write the model as C99, and tell how much memory it takes."""
    import vmkit
    from vmkit.compiler.dumps import Dumps

    if arguments.dump_code or arguments.cross_compiler or arguments.target_host:
        raise OptionError(
            "-f mlf: the archive holds its source, and is built by whoever unpacks it: "
            "--dump-code, --cross-compiler and --target-host are for executables"
        )
    target = "c" if arguments.target == "native" else arguments.target
    with _options(arguments, Dumps(())):
        weights = {**params, **_weights(arguments)}
        metadata = vmkit.mlf.export(mod, output, weights, target, arguments.module_name)
    main = metadata["modules"][arguments.module_name]["memory"]["functions"]["main"][0]
    size = output.stat().st_size
    sizes = [f"{kind}: {main[f'{kind}_size_bytes']:,} bytes" for kind in ("workspace", "constants", "io")]
    return Report({"output": str(output), "bytes": size, "memory": main}, [f"{output}: {size / 1024:,.0f} KiB", *sizes])


def _weights(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.params is None:
        return {}
    if arguments.params.suffix == ".npz":
        return dict(arrays_of(arguments.params))
    from vmkit.relay import load_param_dict

    return dict(load_param_dict(arguments.params.read_bytes()))


def _linker(arguments: argparse.Namespace) -> str | None:
    if arguments.cross_compiler is None:
        if arguments.cross_compiler_options:
            raise OptionError("--cross-compiler-options are for the command of --cross-compiler, which is not given")
        return None
    return f"{arguments.cross_compiler} {arguments.cross_compiler_options}".strip()


@contextlib.contextmanager
def _options(arguments: argparse.Namespace, dumps: Dumps) -> Iterator[None]:
    """Enter the options of the compiler."""
    import sys

    from tvm.ir.instrument import PassTimingInstrument

    import vmkit

    times = PassTimingInstrument()
    context = vmkit.PassContext(
        arguments.opt_level,
        arguments.required_pass,
        arguments.disabled_pass,
        [*dumps.instruments, *([times] if arguments.print_pass_times else [])],
        dict(arguments.pass_config),
    )
    with vmkit.tophub.load(*arguments.tuning_records), context:
        yield
        if arguments.print_pass_times:
            print(times.render(), file=sys.stderr)
