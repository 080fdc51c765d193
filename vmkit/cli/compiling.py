"""The work of ``vmkit compile``, in this process or another: a model into a file, and what is said of it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._dataclasses import dataclass
from ..errors import OptionError
from ..isolation.progress import tell
from .arguments import shapes_of
from .files import model_of, write_dumps
from .shape_text import Shapes
from .shared_library import write_shared_library
from .tvmc.common import weights_of
from .tvmc.offloads import offloads
from .tvmc.preparation import Preparation
from .tvmc.target import parse_target, reconstruct_target_args
from .tvmc.transform import apply_graph_transforms, parse_graph_transform_args

if TYPE_CHECKING:
    import tvm

    from vmkit.compiler.dumps import Dumps
    from vmkit.executable.executable import Executable

__all__ = ["FORMATS", "Report", "compiled"]

FORMATS = {"vmx": ".vmx", "portable": ".vmx", "so": ".so", "tar": ".tar", "mlf": ".tar"}
"""By format: the suffix of its files. The first with a suffix is what a file of that is."""


@dataclass(frozen=True)
class Report:
    """What is printed of a compilation: facts as ``--json`` has them, and lines for people."""

    facts: dict[str, Any]
    lines: list[str]


@dataclass(frozen=True)
class _Loaded:
    """A model to compile: the program or its file, its weights, and what for."""

    model: tvm.IRModule | Path
    params: Mapping[str, Any]
    target: Any
    host: str | None
    shapes: Shapes | None = None
    whole: tvm.IRModule | None = None  # before it was cut for code generators
    offloads: str | None = None


def compiled(arguments: argparse.Namespace) -> Report:
    """Do all of the command but the printing."""
    from vmkit.compiler.all_cores import using_cores
    from vmkit.compiler.dumps import Dumps
    from vmkit.compiler.vm_compiler import STAGES, compile

    kind, output = _output(arguments)
    if kind == "portable" and arguments.target == "native":
        arguments.target = "portable"
    dumps = Dumps(arguments.dump_code)
    if arguments.cache and (dumps.instruments or arguments.print_pass_times):
        raise OptionError(
            "--cache: --dump-code of a stage and --print-pass-times watch the compiler, which does not run where the "
            "cache has the executable; leave one of them out"
        )
    start = time.perf_counter()
    tell(0, STAGES, "reading the model")
    loaded = _loaded(arguments)
    if kind == "mlf":
        return _exported(loaded, arguments, output)
    with using_cores(arguments.jobs), _options(arguments, dumps):
        executable = compile(
            loaded.model, loaded.target, loaded.host, loaded.params, shapes=loaded.shapes, cache=arguments.cache
        )
    tell(3, STAGES, "writing")
    _write(executable, kind, output, arguments)
    seconds = time.perf_counter() - start
    dumped = write_dumps({} if loaded.whole is None else dumps.texts(loaded.whole, executable), output)
    return _report(executable, output, seconds, dumped, loaded.offloads)


def _report(executable: Executable, output: Path, seconds: float, dumps: list[Path], offloads: str | None) -> Report:
    size, signature, paths = output.stat().st_size, str(executable.signature), [str(path) for path in dumps]
    facts = {
        "output": str(output),
        "bytes": size,
        "seconds": round(seconds, 3),
        "target": str(executable.target),
        "signature": signature,
        "kernels": dict(executable.info.kernels or {}),
        "dumps": paths,
        **({} if offloads is None else {"offloads": offloads}),
    }
    first = f"{output}: {size / 1024:,.0f} KiB, compiled in {seconds:.1f} s"
    return Report(facts, [first, signature, *paths, *([] if offloads is None else ["", offloads.rstrip()])])


def _output(arguments: argparse.Namespace) -> tuple[str, Path]:
    """Return the format and the file that arguments ask for; each may say the other."""
    kind, output = arguments.output_format, arguments.output
    if kind is None:
        suffix = ".vmx" if output is None else output.suffix
        kind = next((each for each, ending in FORMATS.items() if ending == suffix), "vmx")
    if kind == "so" and output is not None and output.suffix != ".so":
        raise OptionError(f"-f so: the name of a shared library ends in .so, by which TVM knows it, not {output.name}")
    return kind, output or Path(f"{arguments.model.stem}{FORMATS[kind]}")


def _loaded(arguments: argparse.Namespace) -> _Loaded:
    """Return the program that arguments name, with layouts and precision as they say, cut for code generators."""
    from vmkit.compiler.models import to_module

    changes, options = parse_graph_transform_args(arguments), reconstruct_target_args(arguments)
    model = model_of(arguments.model, arguments.trust_script)
    where, target, host = arguments.dump_offloads, arguments.target, arguments.target_host
    is_cut = bool(options or where or _names_generators(target))
    if arguments.cache and not is_cut and not arguments.dump_code and changes == parse_graph_transform_args({}):
        # A cache knows a file by what is in it, so that nobody reads the model where it has the executable.
        return _Loaded(model, weights_of(arguments.params), target, host, shapes_of(arguments))
    mod, own = to_module(model, shapes=shapes_of(arguments))
    changed = apply_graph_transforms(mod, changes)
    params = {**own, **weights_of(arguments.params)}
    if not is_cut:
        return _Loaded(changed, params, target, host, whole=changed)
    prepared = Preparation.of(target, host, options)
    cut, left = prepared.cut(changed, params, arguments.module_name)
    if where not in (None, "-"):
        Path(where).write_text(offloads(cut), encoding="utf-8")
    said = offloads(cut) if where == "-" else None
    return _Loaded(cut, left, prepared.target, None, whole=changed, offloads=said)


def _names_generators(target: str) -> bool:
    """Say whether code generators stand before a target."""
    if "," not in target or Path(target).is_file():
        return False
    first, *others = parse_target(target)
    return bool(others) and not first["is_tvm_target"]


def _exported(loaded: _Loaded, arguments: argparse.Namespace, output: Path) -> Report:
    """Write the model as C99, and tell how much memory it takes."""
    from vmkit.compiler.dumps import Dumps
    from vmkit.mlf import export

    if arguments.dump_code or arguments.cross_compiler or arguments.target_host or arguments.cache:
        raise OptionError(
            "-f mlf: the archive holds its source, and is built by whoever unpacks it: "
            "--dump-code, --cross-compiler, --target-host and --cache are for executables"
        )
    name = arguments.module_name
    target = "c" if loaded.target == "native" else loaded.target
    with _options(arguments, Dumps(())):
        metadata = export(loaded.model, output, loaded.params, target, name)
    main = metadata["modules"][name]["memory"]["functions"]["main"][0]
    size = output.stat().st_size
    sizes = [f"{kind}: {main[f'{kind}_size_bytes']:,} bytes" for kind in ("workspace", "constants", "io")]
    return Report({"output": str(output), "bytes": size, "memory": main}, [f"{output}: {size / 1024:,.0f} KiB", *sizes])


def _write(executable: Executable, kind: str, output: Path, arguments: argparse.Namespace) -> None:
    """Write an executable in a format."""
    if arguments.cross_compiler_options and not arguments.cross_compiler:
        raise OptionError("--cross-compiler-options are for the command of --cross-compiler, which is not given")
    linker = f"{arguments.cross_compiler or ''} {arguments.cross_compiler_options}".strip() or None
    match kind:
        case "so":
            write_shared_library(executable, output, linker)
        case "tar":
            from .tvmc.model import export

            export(executable, output, linker)
        case _:
            executable.export(output, linker, portable=kind == "portable")


@contextlib.contextmanager
def _options(arguments: argparse.Namespace, dumps: Dumps) -> Iterator[None]:
    """Enter the options of the compiler."""
    from tvm.ir.instrument import PassTimingInstrument

    from vmkit import tophub
    from vmkit.compiler.options import PassContext

    times = PassTimingInstrument()
    context = PassContext(
        arguments.opt_level,
        arguments.required_pass,
        arguments.disabled_pass,
        [*dumps.instruments, *([times] if arguments.print_pass_times else [])],
        dict(arguments.pass_config),
    )
    with tophub.load(*arguments.tuning_records), context:
        yield
        if arguments.print_pass_times:
            print(times.render(), file=sys.stderr)
