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
from ..progress import compiling
from . import frontends
from .common import require_input_file, shapes_of, weights_of
from .exceptions import TVMCException
from .library_format import export as export_library_format
from .library_format import require_library_format, require_no_linker
from .model import TVMCModel, TVMCPackage
from .offloads import dump_operation_offloads
from .pass_config import parse_configs, without_effect
from .preparation import Preparation
from .registry import reconstruct_registry_entity
from .target import reconstruct_target_args
from .transform import parse_graph_transform_args

if TYPE_CHECKING:
    import tvm
    from tvm.target import Target

    from vmkit.compat.built_module import BuiltModule
    from vmkit.executable.executable import Executable

__all__ = ["build", "compile_model", "drive_compile", "pass_context", "records_of", "save_dumps"]

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

    The arguments are those of ``vmkit tvmc compile``, by their names in TVM 0.14.

    Parameters
    ----------
    target, target_host, additional_target_options, **transform_args
        See :class:`~.preparation.Preparation`.
    package_path : str, optional
        By default a file that lives as long as the model.
    use_vm
        Whether the package has no graph beside the program.
    dump_code
        Stages to write beside the package; see :class:`vmkit.compiler.dumps.Dumps`.
    """
    from vmkit.compiler.dumps import Dumps

    prepared = Preparation.of(target, target_host, additional_target_options, transform_args)
    dumps = Dumps(_listed(dump_code))
    config = without_effect(parse_configs(pass_context_configs)) | prepared.configs
    options = {"opt_level": opt_level, "config": config, "disabled_pass": _listed(disabled_pass) or None}
    path = package_path or tvmc_model.default_package_path()
    linking = (str(path), cross, cross_options, output_format)
    with _context(options, [*dumps.instruments, *(instruments or ())], tuning_records, print_pass_times):
        changed = prepared.changed(tvmc_model.mod, tvmc_model.params)
        mod, params = prepared.cut(changed, tvmc_model.params, mod_name)
        if dump_offloads:
            dump_operation_offloads(mod, dump_offloads)
        if output_format == "mlf":
            executable, code = None, _archive(mod, params, prepared, executor, mod_name, linking)
        else:
            built = build(mod, prepared.target, executor, runtime, params, use_vm, mod_name, workspace_pools)
            executable, code = _executable_of(built), None
            tvmc_model.export_package(built, *linking)
    save_dumps(str(path), dumps.texts(changed, executable, code), dump_root="")
    return TVMCPackage(str(path))


def _archive(
    mod: tvm.IRModule,
    params: Mapping[str, Any],
    prepared: Preparation,
    executor: Executor | None,
    mod_name: str | None,
    linking: tuple[str, Any, str | None, str],
) -> Callable[[str], str | None]:
    """Write a program as C, and return what says its code of a format."""
    path, cross, *_ = linking
    require_no_linker(cross)
    return export_library_format(mod, Path(path), params, prepared.target, mod_name or "default", executor).code


def _executable_of(built: BuiltModule | Executable) -> Executable:
    from vmkit.compat.built_module import BuiltModule

    return built.executable if isinstance(built, BuiltModule) else built


def _listed(given: str | Sequence[str] | None) -> list[str]:
    return [name for name in ([given] if isinstance(given, str) else given or ()) if name]


@contextmanager
def _context(
    options: Mapping[str, Any], instruments: Sequence[Any], records: str | None, times_passes: bool
) -> Iterator[None]:
    """Enter the options of the compiler and tuning records; print what passes took at the end, if that is wanted."""
    from tvm.ir.instrument import PassTimingInstrument

    from vmkit import tophub

    context = pass_context()
    timing = [PassTimingInstrument()] if times_passes else []
    with tophub.load(*records_of(records)), context(instruments=[*timing, *instruments] or None, **options):
        yield
        if timing:
            print(f"Compilation time breakdown by pass:\n{timing[0].render()}")


def pass_context() -> Callable[..., Any]:
    """Return what options of the compiler are entered by.

    It is the name of scripts, where vmkit.compat has put it back, which may stand for something else in turn.
    """
    import tvm

    from vmkit import relay
    from vmkit.compiler.options import PassContext

    return tvm.transform.PassContext if hasattr(relay, "build") else PassContext


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
    with compiling(Path(args.FILE).name):
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
