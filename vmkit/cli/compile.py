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
from .arguments import add_json, add_shapes, add_target, arrays_of, key_and_value, listed, shapes_of
from .exit_code import ExitCode

if TYPE_CHECKING:
    import tvm

    import vmkit
    from vmkit.compiler.snapshots import Snapshots

__all__ = ["add_arguments", "run"]

_SOURCES = ("ll", "asm", "c")
_COMPILED = f"{__name__}:compiled"
_STAGES = ("relay", "relax", "tir", "bytecode")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``vmkit compile``."""
    parser.add_argument("model", type=Path, help="an ONNX, Relay, .pt2, .tflite or .mlir file, or a folder with one")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the executable (default: MODEL.vmx)")
    parser.add_argument(
        "-f",
        "--output-format",
        choices=("vmx", "mlf"),
        default="vmx",
        help="an executable, or C99 in the Model Library Format (default: %(default)s)",
    )
    parser.add_argument("--module-name", default="default", metavar="NAME", help="what names in the C contain")
    add_target(parser)
    add_shapes(parser)
    parser.add_argument("--params", type=Path, metavar="FILE", help="weights by name: .npz, or Relay's .params")
    parser.add_argument("-O", "--opt-level", type=int, choices=range(5), default=2, help="default: %(default)s")
    parser.add_argument("--pass-config", type=key_and_value, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--disabled-pass", type=listed, default=[], metavar="NAMES", help="passes to leave out")
    parser.add_argument("--required-pass", type=listed, default=[], metavar="NAMES", help="passes to run at any level")
    _add_changes(parser)
    parser.add_argument(
        "--tuning-records", type=Path, action="append", default=[], metavar="PATH", help="may be given several times"
    )
    parser.add_argument(
        "--dump-code",
        type=listed,
        default=[],
        metavar="FORMATS",
        help=f"write FILE.FORMAT beside the executable: {', '.join((*_STAGES, *_SOURCES))}; or tir:PASS, the program "
        "after a pass",
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


def _add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--desired-layout", nargs="+", default=[], metavar="LAYOUT", help="NHWC or NHWC:HWIO; one, or one an operator"
    )
    parser.add_argument("--desired-layout-ops", nargs="+", metavar="OPERATOR", help="what gets that layout")
    parser.add_argument("--mixed-precision", action="store_true", help="compute in lower precision where that pays")
    parser.add_argument("--mixed-precision-ops", nargs="+", metavar="OPERATOR")
    parser.add_argument("--mixed-precision-calculation-type", default="float16", metavar="DTYPE")
    parser.add_argument("--mixed-precision-acc-type", default="float16", metavar="DTYPE")


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
    from vmkit.compiler.models import to_module

    suffix = "tar" if arguments.output_format == "mlf" else "vmx"
    output = arguments.output or Path(f"{arguments.model.stem}.{suffix}")
    stages = _stages(arguments.dump_code)
    start = time.perf_counter()
    mod, params = to_module(arguments.model, shapes=shapes_of(arguments))
    mod = _changed(mod, arguments)
    if arguments.output_format == "mlf":
        return _export(mod, params, arguments, output)
    with _options(arguments, stages) as snapshots:
        executable = vmkit.compile(mod, arguments.target, arguments.target_host, {**params, **_weights(arguments)})
    executable.export(output, _linker(arguments))
    seconds = time.perf_counter() - start
    dumps = _dump(mod, executable, snapshots, stages, output)
    size, signature, paths = output.stat().st_size, str(executable.signature), [str(path) for path in dumps]
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

    if arguments.dump_code or arguments.cross_compiler or arguments.target_host:
        raise OptionError(
            "-f mlf: the archive holds its source, and is built by whoever unpacks it: "
            "--dump-code, --cross-compiler and --target-host are for executables"
        )
    target = "c" if arguments.target == "native" else arguments.target
    with _options(arguments, {}):
        weights = {**params, **_weights(arguments)}
        metadata = vmkit.mlf.export(mod, output, weights, target, arguments.module_name)
    main = metadata["modules"][arguments.module_name]["memory"]["functions"]["main"][0]
    size = output.stat().st_size
    sizes = [f"{kind}: {main[f'{kind}_size_bytes']:,} bytes" for kind in ("workspace", "constants", "io")]
    return Report({"output": str(output), "bytes": size, "memory": main}, [f"{output}: {size / 1024:,.0f} KiB", *sizes])


def _changed(mod: tvm.IRModule, arguments: argparse.Namespace) -> tvm.IRModule:
    from vmkit.compiler import graph_changes

    if arguments.desired_layout:
        operators = arguments.desired_layout_ops or graph_changes.LAYOUT_OPERATORS
        mod = graph_changes.with_layouts(mod, arguments.desired_layout, operators)
    elif arguments.desired_layout_ops:
        raise OptionError("--desired-layout-ops names operators, but --desired-layout gives no layout")
    if arguments.mixed_precision:
        wanted = graph_changes.MixedPrecision(
            arguments.mixed_precision_ops or graph_changes.MIXED_PRECISION_OPERATORS,
            arguments.mixed_precision_calculation_type,
            arguments.mixed_precision_acc_type,
        )
        mod = graph_changes.with_mixed_precision(mod, wanted)
    elif arguments.mixed_precision_ops:
        raise OptionError("--mixed-precision-ops names operators, but --mixed-precision is not given")
    return mod


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


def _stages(formats: list[str]) -> dict[str, str | None]:
    """Return the pass after which each dump is taken, None for those that are no snapshots."""
    from vmkit.compiler.pass_names import known_passes, todays_name
    from vmkit.compiler.snapshots import LOWERED, SCHEDULED
    from vmkit.errors import suggest

    passes: dict[str, str | None] = dict.fromkeys(("relay", "bytecode", *_SOURCES))
    passes.update(relax=SCHEDULED, tir=LOWERED)
    stages = {}
    for each in formats:
        kind, colon, name = each.partition(":")
        if colon and kind == "tir":
            forms = (todays_name(name), todays_name(f"tir.{name}"))
            stages[each] = next((form for form in forms if form in known_passes()), None)
            if stages[each] is None:
                raise OptionError(f"--dump-code: there is no pass {name!r}{suggest(name, known_passes())}")
        elif each in passes:
            stages[each] = passes[each]
        else:
            raise OptionError(
                f"--dump-code: there is no {each!r}; there are {', '.join((*_STAGES, *_SOURCES))}, tir:PASS"
            )
    return stages


@contextlib.contextmanager
def _options(arguments: argparse.Namespace, stages: dict[str, str | None]) -> Iterator[Snapshots]:
    """Enter the options of the compiler, and yield what keeps the texts between passes."""
    import sys

    from tvm.ir.instrument import PassTimingInstrument

    import vmkit
    from vmkit.compiler.snapshots import Snapshots

    snapshots, times = Snapshots(name for name in stages.values() if name), PassTimingInstrument()
    instruments = [*([snapshots] if any(stages.values()) else []), *([times] if arguments.print_pass_times else [])]
    context = vmkit.PassContext(
        arguments.opt_level,
        arguments.required_pass,
        arguments.disabled_pass,
        instruments,
        dict(arguments.pass_config),
    )
    with vmkit.tophub.load(*arguments.tuning_records), context:
        yield snapshots
        if arguments.print_pass_times:
            print(times.render(), file=sys.stderr)


def _dump(
    mod: tvm.IRModule,
    executable: vmkit.Executable,
    snapshots: Snapshots,
    stages: dict[str, str | None],
    output: Path,
) -> list[Path]:
    """Write what was asked for beside the executable, and return the files."""
    files = []
    for each, name in stages.items():
        path = output.with_name(f"{output.name}.{each.replace(':', '.')}")
        path.write_text(snapshots.text(name) if name else _text(mod, executable, each), encoding="utf-8")
        files.append(path)
    return files


def _text(mod: tvm.IRModule, executable: vmkit.Executable, each: str) -> str:
    import vmkit
    from vmkit.errors import ModelError

    if each == "bytecode":
        return executable.bytecode
    if each == "relay":
        if not any(isinstance(f, vmkit.relay.Function) for f in mod.functions.values()):
            raise ModelError("--dump-code relay: the model is Relax and has no Relay text; --dump-code relax shows it")
        return vmkit.relay.astext(mod, show_meta_data=False)
    kinds = {"c": ("c",), "ll": ("llvm",), "asm": ("llvm",)}[each]
    libraries = [library for library in executable.libraries if library.kind in kinds]
    if not libraries:
        raise OptionError(f"--dump-code {each}: there is no such code for {executable.target}")
    return "\n".join(library.inspect_source(each) for library in libraries)
