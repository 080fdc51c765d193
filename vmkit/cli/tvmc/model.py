"""``tvm.driver.tvmc.model``: models, packages of what they were compiled to, and results of running those."""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from .exceptions import TVMCException, TVMCImportError
from .library_format import require_no_linker
from .package_file import GRAPH, PARAMS, opened, write_package

if TYPE_CHECKING:
    import numpy as np
    import tvm
    from tvm.runtime.module import BenchmarkResult

    from vmkit.compat.built_module import BuiltModule
    from vmkit.executable.executable import Executable

__all__ = ["TVMCException", "TVMCImportError", "TVMCModel", "TVMCPackage", "TVMCResult", "export"]

_MODULE, _WEIGHTS, _RECORDS, _PACKAGE = "model.json", "model.params", "tuning_records.json", "model_package.tar"


class TVMCModel:
    """A model before it is compiled.

    Parameters
    ----------
    mod : tvm.IRModule, optional
        The program.
    params : mapping of str to array, optional
        Values of parameters of ``main``.
    model_path : str, optional
        A file that :meth:`save` wrote, in place of both.
    """

    def __init__(
        self,
        mod: tvm.IRModule | None = None,
        params: Mapping[str, Any] | None = None,
        model_path: str | None = None,
    ) -> None:
        if (mod is None) == (model_path is None):
            raise TVMCException("Either mod and params must be provided, or a path to a saved TVMCModel: one of both")
        # What belongs to the model, records and a package, is kept as long as it.
        self._folder = tempfile.TemporaryDirectory()
        self.mod: tvm.IRModule
        self.params: dict[str, Any] = {} if params is None else dict(params)
        if mod is not None:
            self.mod = mod
        elif model_path is not None:
            self.load(model_path)

    def save(self, model_path: str) -> None:
        """Write the model to a file, with records and a package that were made of it."""
        from vmkit.values.param_dict import save_param_dict

        folder = Path(self._folder.name)
        (folder / _MODULE).write_text(_json_of(self.mod), encoding="utf-8")
        (folder / _WEIGHTS).write_bytes(save_param_dict(self.params))
        with tarfile.open(model_path, "w") as archive:
            for name in (_MODULE, _WEIGHTS, _RECORDS, _PACKAGE):
                if (folder / name).exists():
                    archive.add(folder / name, name)

    def load(self, model_path: str) -> None:
        """Read the model of a file that :meth:`save` wrote."""
        from vmkit.relay.json import load_json
        from vmkit.values.param_dict import load_param_dict

        folder = Path(self._folder.name)
        try:
            with tarfile.open(model_path, "r:") as archive:
                for name in {_MODULE, _WEIGHTS, _RECORDS, _PACKAGE} & set(archive.getnames()):
                    file = archive.extractfile(name)
                    (folder / name).write_bytes(file.read() if file is not None else b"")
            mod = load_json((folder / _MODULE).read_text(encoding="utf-8"))
        except (tarfile.TarError, OSError) as error:
            raise TVMCException(f"{model_path}: not a model that TVMCModel.save wrote: {error}") from error
        self.mod = mod
        self.params = dict(load_param_dict((folder / _WEIGHTS).read_bytes()))

    def default_tuning_records_path(self) -> str:
        """Return the file in which records of this model are kept with it."""
        return str(Path(self._folder.name) / _RECORDS)

    def default_package_path(self) -> str:
        """Return the file in which a package of this model is kept with it."""
        return str(Path(self._folder.name) / _PACKAGE)

    def summary(self, file: TextIO | None = None) -> None:
        """Print the program."""
        print(self.mod, file=file or sys.stdout)

    def export_package(
        self,
        executor_factory: BuiltModule | Executable,
        package_path: str | None = None,
        cross: str | Callable[..., Any] | None = None,
        cross_options: str | None = None,
        output_format: str = "so",
    ) -> str:
        """Write what was compiled to a package, and return its path.

        Parameters
        ----------
        executor_factory : BuiltModule or Executable
            What ``relay.build`` gave, for a package with a graph; or an executable.
        package_path : str, optional
            The package; by default :meth:`default_package_path`.
        cross : str or callable, optional
            What links the kernels; see :meth:`vmkit.Executable.export`.
        cross_options : str, optional
            Options of that command.
        output_format : {"so", "mlf"}
            A package, or an archive in the Model Library Format.
        """
        path = Path(package_path or self.default_package_path())
        if output_format == "mlf":
            require_no_linker(cross)
            return self._export_library_format(executor_factory, path)
        if output_format != "so":
            raise TVMCException(f"there is no output format {output_format!r}; there are so and mlf")
        if cross_options and not cross:
            raise TVMCException("--cross-compiler-options are for the command of --cross-compiler, which is not given")
        linker = f"{cross} {cross_options or ''}".strip() if isinstance(cross, str) else cross
        export(executor_factory, path, linker or None)
        return str(path)

    def _export_library_format(self, built: BuiltModule | Executable, path: Path) -> str:
        from vmkit.compat.built_module import BuiltModule
        from vmkit.compat.model_library_format import export_model_library_format

        if not isinstance(built, BuiltModule):
            raise TVMCException("an archive in the Model Library Format is made of what relay.build gave")
        export_model_library_format(built, path)
        return str(path)


def export(built: BuiltModule | Executable, path: Path, linker: str | Callable[..., Any] | None = None) -> None:
    """Write what was compiled to a package: of an executable without a graph beside it.

    Parameters
    ----------
    built : BuiltModule or Executable
        What ``relay.build`` gave, or an executable.
    path : Path
        The package.
    linker : str or callable, optional
        What links the kernels; see :meth:`vmkit.Executable.export`.
    """
    from vmkit.compat.built_module import AOTExecutorFactoryModule, BuiltModule
    from vmkit.values.param_dict import save_param_dict

    facts: dict[str, Any] = {"type": "vm", "executor": "vm"}
    parts: dict[str, bytes] = {}
    if isinstance(built, BuiltModule):
        is_aot = isinstance(built, AOTExecutorFactoryModule)
        facts = {"type": "classic", "executor": "aot" if is_aot else "graph", "module": built.libmod_name}
        parts[PARAMS] = bytes(save_param_dict({} if is_aot else built.get_params()))
        if not is_aot:
            parts[GRAPH] = built.get_executor_config().encode()
    executable = built.executable if isinstance(built, BuiltModule) else built
    facts["signature"] = str(executable.signature)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.vmx"
        executable.export(file, linker)
        write_package(path, file, facts, parts)


def _json_of(mod: tvm.IRModule) -> str:
    """Return a module as TVM 0.14 wrote it, or one of Relax as today's TVM does."""
    import tvm

    from vmkit.errors import ModelError
    from vmkit.relay.json import save_json

    try:
        return save_json(mod)
    except ModelError:
        return tvm.ir.save_json(mod)


class TVMCPackage:
    """What a model was compiled to, in a file.

    Parameters
    ----------
    package_path : str
        The file.
    project_dir : str, optional
        For an archive in the Model Library Format, the folder of a project.

    Attributes
    ----------
    type : {"classic", "vm", "mlf"}
        Whether there is a graph beside the program, or it is an archive in the Model Library Format.
    lib_name, lib_path : str or None
        The executable, and where it lies as long as this object lives; None for an archive.
    graph : str or None
        The graph.
    params : bytearray or None
        The constants of the graph.
    facts : mapping
        What the package says of itself.
    """

    def __init__(self, package_path: str, project_dir: str | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.package_path = package_path
        self.import_package(package_path)
        if project_dir is not None and self.type != "mlf":
            raise TVMCException("Setting 'project_dir' is only allowed when importing a MLF.!")
        self.project_dir = project_dir

    def import_package(self, package_path: str) -> None:
        """Read a package."""
        package = opened(Path(package_path), Path(self._folder.name))
        self.type = package.kind
        self.facts = package.facts
        self.lib_name = None if package.executable is None else package.executable.name
        self.lib_path = None if package.executable is None else str(package.executable)
        self.graph, self.params = package.graph, package.params

    @property
    def executor_type(self) -> str:
        """What the model was compiled to run on: ``"vm"``, ``"graph"`` or ``"aot"``."""
        if self.type == "mlf":
            return "graph" if self.graph is not None else "aot"
        return str(self.facts.get("executor", "vm"))


class TVMCResult:
    """What a run gave.

    Parameters
    ----------
    outputs : mapping of str to numpy.ndarray
        The outputs by name: ``output_0`` and so on.
    times : BenchmarkResult
        What calls took.
    """

    def __init__(self, outputs: dict[str, np.ndarray], times: BenchmarkResult) -> None:
        self.outputs = outputs
        self.times = times

    def format_times(self) -> str:
        """Return the times as a table: mean, median, max, min and std in milliseconds."""
        return str(self.times)

    def get_output(self, name: str) -> np.ndarray:
        """Return an output."""
        return self.outputs[name]

    def save(self, output_path: str) -> None:
        """Write the outputs to an ``.npz`` file."""
        from ..files import write_arrays

        write_arrays(Path(output_path), self.outputs)

    def __str__(self) -> str:
        stat_table = self.format_times()
        return f"\n{stat_table}\n\nOutput Names:\n {list(self.outputs)}"
