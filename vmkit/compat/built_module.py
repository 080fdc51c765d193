"""What ``relay.build`` returns: the compiled model, with what there is to say of it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import Tensor
from tvm.support import cc

from vmkit.compiler.vm_compiler import compile
from vmkit.errors import InputError, ModelError, UnavailableError, suggest
from vmkit.executable.executable import Executable
from vmkit.runtime.machine import VirtualMachine
from vmkit.values.signature import Signature

from .backend_names import mangle_module_name
from .build_choices import Executor
from .graph_json import Graph
from .graph_module import GraphModule
from .graph_program import Source
from .vm_executable import relay_executable

__all__ = ["AOTExecutorFactoryModule", "BuiltModule", "ExecutorFactoryModule", "GraphExecutorFactoryModule"]

_LIBRARIES = (".so", ".dylib", ".dll", ".tar")
"""How files end that TVM itself loads: shared libraries, and the objects that one is linked from."""


class BuiltModule:
    """A compiled model: ``lib["default"](device)`` is the model on a device.

    Parameters
    ----------
    executable : Executable
        The program; the parameters are inside.
    libmod_name : str
        The name under which it is found, ``"default"`` where ``relay.build`` was given no other.
    source : Source, optional
        What it was built from; None where it was read from a file.
    """

    def __init__(self, executable: Executable, libmod_name: str = "default", source: Source | None = None) -> None:
        self.executable = executable
        self.libmod_name = libmod_name
        self._source = source

    @property
    def module(self) -> BuiltModule:
        """The module that holds the model: this."""
        return self

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Return a function by its name.

        The model's is of devices. ``"get_graph_json"`` and ``"get_graph_params"`` are of nothing, and so is
        ``"remove_params"``, which returns the model with the constants of its graph as inputs. ``"debug_create"`` is
        of the model's name and devices: what it returns is for ``GraphModuleDebug``.
        """
        functions: dict[str, Callable[..., Any]] = {
            self.libmod_name: self._on_devices,
            "debug_create": self._by_node,
            "get_graph_json": self.get_graph_json,
            "get_graph_params": self.get_params,
            "remove_params": self._without_params,
        }
        if name not in functions:
            known = ", ".join(map(repr, functions))
            raise KeyError(f"a built model has {known}, not {name!r}{suggest(str(name), functions)}")
        return functions[name]

    def _on_devices(self, *devices: tvm.runtime.Device) -> GraphModule:
        return GraphModule(VirtualMachine(self.executable, list(devices) or "cpu"), self._constants, self)

    def _by_node(self, name: str, *devices: tvm.runtime.Device) -> GraphModule:
        module: GraphModule = self[name](*devices)
        return module

    def _without_params(self) -> BuiltModule:
        source = self.source.without_params()
        return type(self)(compile(source.ir_mod, source.plan), self.libmod_name, source)

    def _constants(self) -> Mapping[str, Tensor]:
        return self.get_params() if self._source is not None else {}

    def __iter__(self) -> Iterator[Any]:
        """Unpack into ``graph, lib, params``, for ``graph_executor.create``; the parameters are also inside lib."""
        warnings.warn(
            "relay.build returns one object: use lib['default'](device) in place of graph, lib and params",
            DeprecationWarning,
            stacklevel=2,
        )
        return iter((self.get_executor_config(), self, self.get_params()))

    # -- what there is to say of it

    @property
    def source(self) -> Source:
        """What it was built from."""
        if self._source is None:
            raise UnavailableError(
                "a model that was read from a file has no program: keep what relay.build gave beside it"
            )
        return self._source

    @property
    def ir_mod(self) -> tvm.IRModule:
        """The program that it was built from."""
        return self.source.ir_mod

    @property
    def target(self) -> tvm.target.Target | None:
        """What it was compiled for."""
        return self.executable.target

    @property
    def executor(self) -> Executor:
        """What was chosen to run it."""
        return self.source.executor

    @cached_property
    def _graph(self) -> Graph | None:
        if self._source is None and self.executable.info.graph is not None:
            text = self.executable.info.graph["json"]
            return Graph(text, {}, ()) if text else None
        try:
            return self.source.graph(self.libmod_name, self.fingerprint)
        except ModelError:
            return None  # control flow, or sizes that are known at run time: the virtual machine's alone

    @cached_property
    def fingerprint(self) -> str:
        """What tells the library from those of other programs: a digest of its functions and kernels."""
        if self._source is None and self.executable.info.graph is not None:
            return self.executable.info.graph["program"]
        parts = [*map(str, self.executable.signatures.values()), *self.executable.primitive_ops]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def graph_json(self) -> str:
        """The program as a graph in the graph executor's JSON."""
        return self.get_graph_json()

    @property
    def params(self) -> dict[str, Tensor]:
        """The parameters by the names that they have in the graph."""
        return self.get_params()

    @property
    def lib(self) -> tvm.runtime.Module | BuiltModule:
        """The library of kernels; this for a program that has none."""
        library: Any = self.executable.lib
        if library is None:
            return self
        # So that graph_executor.create finds the program of a library, also through its file.
        library.built, library.export_library = self, self.export_library
        return library

    @property
    def function_metadata(self) -> dict[str, Signature]:
        """What the module's function takes and gives, by the name that it has in C."""
        return {f"{mangle_module_name(self.libmod_name)}___tvm_main__": self.executable.signature}

    def get_devices(self) -> list[str]:
        """Return the devices that a board would be asked for: none."""
        return []

    def get_graph_json(self) -> str:
        """Return the program as a graph in the graph executor's JSON.

        Raises
        ------
        UnavailableError
            For a program with control flow or sizes that are known at run time only, which no graph says, and for a
            model that was read from a file.
        """
        if self._graph is None:
            raise UnavailableError(
                "the program has control flow or unknown sizes, and so no graph; lib['default'] runs"
            )
        return self._graph.json

    def get_executor_config(self) -> str:
        """Return the graph; a text that says so for a program that has none."""
        return self._graph.json if self._graph is not None else f'{{"metadata": {{"program": "{self.fingerprint}"}}}}'

    def get_params(self) -> dict[str, Tensor]:
        """Return the constants of the graph by name. They are inside the executable, too, and need not be set."""
        return dict(self._graph.params) if self._graph is not None else {}

    def get_lib(self) -> tvm.runtime.Module | BuiltModule:
        """Return the library of kernels."""
        return self.lib

    # -- the library as a module of TVM's

    @property
    def type_key(self) -> str:
        """What kind of module it is."""
        return "GraphExecutorFactory"

    @property
    def imported_modules(self) -> list[tvm.runtime.Module]:
        """The library of kernels, in a list."""
        return [] if isinstance(self.lib, BuiltModule) else [self.lib]

    def get_source(self, fmt: str = "") -> str:
        """Return the kernels' source: LLVM's IR, or assembly for ``"asm"``."""
        return "" if isinstance(self.lib, BuiltModule) else str(self.lib.inspect_source(fmt))

    def export_library(
        self,
        file_name: str | Path,
        fcompile: Callable[..., Any] | None = None,
        addons: Any = None,
        workspace_dir: str | None = None,
        **_: Any,
    ) -> None:
        """Write the model to a file, which ``tvm.runtime.load_module`` reads.

        A file whose name ends as that of a shared library, or in ``.tar``, is one, which TVM loads also where vmkit is
        not, such as behind ``remote.load_module``. Any other is a vmkit executable, and so are those of programs
        without kernels, of models that were read from one, and where nothing can link. `fcompile` links the kernels,
        such as ``cc.cross_compiler(...)``.

        Raises
        ------
        InputError
            For addons, which no file of a model takes.
        ExecutableError
            For kernels that were read from a shared library: those cannot be written again.
        """
        if addons:
            raise InputError("a model's file takes no addons: link them in fcompile")
        self._say_name()
        exe = self.executable
        if self._goes_into_library(str(file_name), fcompile):
            options = {} if workspace_dir is None else {"workspace_dir": workspace_dir}
            relay_executable(exe).described_module().export_library(str(file_name), fcompile=fcompile, **options)
            return
        links = getattr(fcompile, "output_format", None) == "so"
        exe.export(file_name, linker=fcompile if links else None)

    def _goes_into_library(self, file_name: str, fcompile: Callable[..., Any] | None) -> bool:
        """Say whether a file can be a library: there are kernels, not linked yet, and what links them."""
        libraries = self.executable.libraries
        has_linker = file_name.endswith(".tar") or fcompile is not None or cc.get_cc() is not None
        is_library = file_name.endswith(_LIBRARIES) and len(libraries) > 0
        return is_library and has_linker and all(each.is_compilation_exportable() for each in libraries)

    def _say_name(self) -> None:
        """Put the name of the model and its graph among what the executable tells of itself."""
        graph = {"name": self.libmod_name, "program": self.fingerprint}
        graph["json"] = self._graph.json if self._graph is not None else ""
        self.executable.info = replace(self.executable.info, graph=graph)

    def save(self, file_name: str | Path, fmt: str = "") -> None:
        """Write the model to a file as :meth:`export_library` does."""
        self.export_library(file_name)


class GraphExecutorFactoryModule(BuiltModule):
    """What ``relay.build`` returns by default."""


class AOTExecutorFactoryModule(BuiltModule):
    """What ``relay.build`` returns for ``Executor("aot")``; it runs as any other."""

    def get_executor_config(self) -> str:
        """Return an empty text: code that is compiled ahead needs no graph."""
        return ""

    @property
    def devices(self) -> list[str]:
        """The devices that a board would be asked for: none."""
        return []


ExecutorFactoryModule = BuiltModule
