"""``tvm.driver.tvmc.compiler``: models into packages."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...compat.build_choices import Executor, Runtime
from ...errors import suggest
from ..files import write_dumps
from . import composite_target, frontends
from .common import require_input_file, shapes_of, weights_of
from .exceptions import TVMCException
from .library_format import export as export_library_format
from .library_format import require_library_format, require_no_linker
from .model import TVMCModel, TVMCPackage
from .offloads import dump_operation_offloads
from .pass_config import parse_configs, without_effect
from .registry import reconstruct_registry_entity
from .target import reconstruct_target_args, target_from_cli
from .transform import apply_graph_transforms, parse_graph_transform_args

if TYPE_CHECKING:
    import tvm
    from tvm.target import Target

    from vmkit.compat.built_module import BuiltModule
    from vmkit.executable.executable import Executable

__all__ = ["build", "compile_model", "drive_compile", "records_of", "save_dumps"]

logger = logging.getLogger("TVMC")


def compile_model(
    tvmc_model: TVMCModel,
    target: str,
    opt_level: int = 3,
    executor: Executor | None = None,
    runtime: Runtime | None = None,
    tuning_records: str | None = None,
    package_path: str | None = None,
    cross: str | Callable[..., Any] | None = None,
    cross_options: str | None = None,
    output_format: str = "so",
    dump_code: str | Sequence[str] | None = None,
    dump_offloads: str = "",
    target_host: str | None = None,
    disabled_pass: str | Sequence[str] | None = None,
    pass_context_configs: Sequence[str] | None = None,
    additional_target_options: Mapping[str, Mapping[str, Any]] | None = None,
    use_vm: bool = False,
    mod_name: str | None = "default",
    workspace_pools: object = None,
    print_pass_times: bool = False,
    instruments: Sequence[Any] | None = None,
    **transform_args: Any,
) -> TVMCPackage:
    """Compile a model, and return the package that was written.

    Parameters
    ----------
    tvmc_model : TVMCModel
        The model.
    target, target_host : str
        What to compile for, and what drives a device; see :func:`~.target.target_from_cli`.
    executor, runtime : Executor, Runtime, optional
        What TVM 0.14 would have run it on, ``"graph"`` by default. Packages run on the virtual machine.
    tuning_records : str, optional
        A file that :func:`~.autotuner.tune_model` wrote, or the folder of a MetaSchedule database.
    package_path : str, optional
        The package; by default a file that lives as long as the model.
    cross, cross_options
        What links the kernels for another machine: a command or a callable, and options of the command.
    output_format : {"so", "mlf"}
        A package, or an archive in the Model Library Format.
    dump_code : str or list of str, optional
        Stages to write beside the package, as ``PACKAGE.ll``; see :class:`vmkit.compiler.dumps.Dumps`.
    dump_offloads : str
        Where to write which operators each code generator gets: a file, or ``"-"`` for the standard output.
    disabled_pass, pass_context_configs : list of str, optional
        Passes to leave out, and options of passes, each ``NAME=VALUE``.
    additional_target_options : mapping, optional
        Options of targets, by their names.
    use_vm : bool
        Whether the package has no graph beside the program.
    **transform_args
        Layouts and precision; see :func:`~.transform.apply_graph_transforms`.

    Raises
    ------
    TVMCException, VMKitError
        For arguments that cannot be used, and for a model that cannot be compiled.
    """
    from vmkit.compiler.dumps import Dumps

    transforms = _transforms(transform_args)
    dumps = Dumps([dump_code] if isinstance(dump_code, str) else dump_code or [])
    plan, generators = _targets(target, target_host, additional_target_options)
    config = without_effect(parse_configs(pass_context_configs)) | _configs(generators)
    options = {"opt_level": opt_level, "config": config, "disabled_pass": _names(disabled_pass)}
    with _context(options, [*dumps.instruments, *(instruments or ())], tuning_records, print_pass_times):
        changed = apply_graph_transforms(tvmc_model.mod, transforms, tvmc_model.params)
        mod = _partitioned(changed, tvmc_model.params, generators, mod_name)
        # A program that was cut has them inside.
        params = {} if generators else tvmc_model.params
        if dump_offloads:
            dump_operation_offloads(mod, dump_offloads)
        if output_format == "mlf":
            require_no_linker(cross)
            path = str(package_path or tvmc_model.default_package_path())
            built = None
            code = export_library_format(mod, Path(path), params, plan, mod_name or "default", executor).code
        else:
            code = None
            built = build(mod, plan, executor, runtime, params, use_vm, mod_name, workspace_pools)
    if built is not None:
        path = tvmc_model.export_package(built, package_path, cross, cross_options, output_format)
    if dumps:
        save_dumps(path, dumps.texts(changed, _executable_of(built), code), dump_root="")
    return TVMCPackage(path)


def _executable_of(built: BuiltModule | Executable | None) -> Executable | None:
    from vmkit.compat.built_module import BuiltModule

    return built.executable if isinstance(built, BuiltModule) else built


def _transforms(given: Mapping[str, Any]) -> dict[str, Any]:
    known = parse_graph_transform_args({})
    for name in given:
        if name not in known:
            raise TypeError(f"compile_model has no argument {name!r}{suggest(name, known)}")
    return known | dict(given)


def _names(given: str | Sequence[str] | None) -> list[str] | None:
    names = [given] if isinstance(given, str) else given
    return [name for name in names if name] if names else None


def _targets(
    target: str, host: str | None, more: Mapping[str, Mapping[str, Any]] | None
) -> tuple[Target, list[dict[str, Any]]]:
    from tvm.target import Target

    if not target:
        raise TVMCException("there is no target: --target native is this machine, --target llvm any of its kind")
    found, generators = target_from_cli(target, more)
    return found if host is None else Target(found, target_from_cli(host)[0]), generators


def _configs(generators: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the options of code generators that ``PassContext`` has."""
    keys = {each["name"]: composite_target.get_codegen_by_target(each["name"])["config_key"] for each in generators}
    return {key: each["opts"] for each in generators if (key := keys[each["name"]]) is not None}


def _partitioned(
    mod: tvm.IRModule, params: Mapping[str, Any], generators: Sequence[Mapping[str, Any]], mod_name: str | None
) -> tvm.IRModule:
    """Return a program that is cut for each code generator in turn."""
    for generator in generators:
        codegen = composite_target.get_codegen_by_target(generator["name"])
        mod = codegen["pass_pipeline"](mod, params, mod_name=mod_name, **generator["opts"])
    return mod


@contextmanager
def _context(
    options: Mapping[str, Any], instruments: Sequence[Any], records: str | None, times_passes: bool
) -> Iterator[None]:
    """Enter the options of the compiler and tuning records; print what passes took at the end, if that is wanted."""
    import tvm
    from tvm.ir.instrument import PassTimingInstrument

    from vmkit import relay, tophub
    from vmkit.compiler.options import PassContext

    # The names of scripts, where vmkit.compat has put them back: they may stand for something else in turn.
    context = tvm.transform.PassContext if hasattr(relay, "build") else PassContext
    timing = [PassTimingInstrument()] if times_passes else []
    with tophub.load(*records_of(records)), context(instruments=[*timing, *instruments] or None, **options):
        yield
        if timing:
            print(f"Compilation time breakdown by pass:\n{timing[0].render()}")


def records_of(path: str | None) -> list[Path]:
    """Return the files and folders of records that a path stands for: a folder of deeper searches lies beside a file.

    Raises
    ------
    TVMCException
        If there is no such file, or it has records of AutoTVM or the auto-scheduler.
    """
    if not path:
        return []
    given = Path(path)
    if not given.exists():
        beside = [each.name for each in given.parent.iterdir()] if given.parent.is_dir() else []
        raise TVMCException(f"--tuning-records {path}: there is no such file{suggest(given.name, beside)}")
    deeper = given.with_suffix("")
    return [given, *([deeper] if deeper != given and deeper.is_dir() else [])]


def build(
    mod: tvm.IRModule,
    tvm_target: Target,
    executor: Executor | None,
    runtime: Runtime | None,
    params: Mapping[str, Any],
    use_vm: bool,
    mod_name: str | None,
    workspace_pools: Any = None,  # noqa: ANN401 - what is handed on to be refused
) -> BuiltModule | Executable:
    """Return a compiled model: an executable with `use_vm`, else what ``relay.build`` gives."""
    from vmkit import relay
    from vmkit.compat import graph_executor
    from vmkit.compiler.vm_compiler import compile

    if use_vm:
        return compile(mod, tvm_target, params=params)
    relay_build = getattr(relay, "build", graph_executor.build)
    return relay_build(
        mod,
        target=tvm_target,
        params=params,
        executor=executor,
        runtime=runtime,
        mod_name=mod_name,
        workspace_memory_pools=workspace_pools,
    )


def save_dumps(module_name: str, dumps: Mapping[str, str], dump_root: str = ".") -> None:
    """Write texts of a program, each as ``MODULE_NAME.FORMAT`` in a folder."""
    write_dumps(dumps, Path(dump_root) / module_name)


def drive_compile(args: Namespace) -> int:
    """Run ``tvmc compile``, and return 0."""
    require_input_file(args.FILE)
    model = frontends.load_model(args.FILE, args.model_format, shapes_of(args))
    model.params |= weights_of(args.relay_params)
    executor = reconstruct_registry_entity(args, Executor)
    runtime = reconstruct_registry_entity(args, Runtime)
    require_library_format(args.output_format, executor, runtime)
    compile_model(
        model,
        args.target,
        opt_level=args.opt_level,
        executor=executor,
        runtime=runtime,
        tuning_records=args.tuning_records,
        package_path=args.output,
        cross=args.cross_compiler,
        cross_options=args.cross_compiler_options,
        output_format=args.output_format,
        dump_code=args.dump_code,
        dump_offloads=args.dump_offloads,
        disabled_pass=args.disabled_pass,
        pass_context_configs=args.pass_config,
        additional_target_options=reconstruct_target_args(args),
        # What no executor is asked for needs no graph.
        use_vm=executor is None,
        mod_name=args.module_name,
        print_pass_times=args.print_pass_times,
        **parse_graph_transform_args(args),
    )
    return 0
