"""What ``relay.build`` returns: the compiled model, with what there is to say of it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import Tensor

from vmkit.compiler.stages import relay_module
from vmkit.errors import InputError, ModelError, UnavailableError, suggest
from vmkit.executable.executable import Executable
from vmkit.relay import transform
from vmkit.relay.params import bind_params
from vmkit.runtime.machine import VirtualMachine
from vmkit.target.plan import TargetPlan
from vmkit.values.signature import Signature

from .backend_names import mangle_module_name
from .build_choices import Executor
from .graph_json import Graph, graph_of
from .graph_module import GraphModule

__all__ = ["AOTExecutorFactoryModule", "BuiltModule", "ExecutorFactoryModule", "GraphExecutorFactoryModule", "Source"]


class Source:
    """What a model was built from.

    Attributes
    ----------
    ir_mod : tvm.IRModule
        The program.
    params : mapping of str to array
        What was bound to its parameters.
    plan : TargetPlan
        What it was compiled for.
    executor : Executor
        What was chosen to run it.
    """

    def __init__(self, ir_mod: tvm.IRModule, params: Mapping[str, Any], plan: TargetPlan, executor: Executor) -> None:
        self.ir_mod, self.params, self.plan, self.executor = ir_mod, params, plan, executor
        # The graph is made when it is asked for, which may be outside the context of the build.
        context = tvm.transform.PassContext.current()
        self._passes = (context.opt_level, list(context.required_pass), list(context.disabled_pass))

    def graph(self, mod_name: str, program: str) -> Graph:
        """Return the program as a graph, with its parameters as constants and operators fused as Relay did."""
        mod = bind_params(relay_module(self.ir_mod), self.params)
        simplified = [transform.SimplifyInference(), transform.FastMath(), transform.FlattenAtrousConv()]
        passes = [transform.InferType(), *simplified, transform.FuseOps()]
        with tvm.transform.PassContext(*self._passes):
            mod = tvm.transform.Sequential(passes)(mod)
        return graph_of(mod, mod_name, {"program": program})


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
        """Return a function: the model's, of devices, or ``"get_graph_json"`` or ``"get_graph_params"``, of nothing."""
        functions: dict[str, Callable[..., Any]] = {
            self.libmod_name: self._on_devices,
            "get_graph_json": self.get_graph_json,
            "get_graph_params": self.get_params,
        }
        if name not in functions:
            known = ", ".join(map(repr, functions))
            raise KeyError(f"a built model has {known}, not {name!r}{suggest(str(name), functions)}")
        return functions[name]

    def _on_devices(self, *devices: tvm.runtime.Device) -> GraphModule:
        return GraphModule(VirtualMachine(self.executable, list(devices) or "cpu"), self._constants)

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
    def _built_from(self) -> Source:
        if self._source is None:
            raise UnavailableError(
                "a model that was read from a file has no graph and no program: keep what relay.build gave beside it"
            )
        return self._source

    @property
    def ir_mod(self) -> tvm.IRModule:
        """The program that it was built from."""
        return self._built_from.ir_mod

    @property
    def target(self) -> tvm.target.Target | None:
        """What it was compiled for."""
        return self.executable.target

    @property
    def executor(self) -> Executor:
        """What was chosen to run it."""
        return self._built_from.executor

    @cached_property
    def _graph(self) -> Graph | None:
        try:
            return self._built_from.graph(self.libmod_name, self.fingerprint)
        except ModelError:
            return None  # control flow, or sizes that are known at run time: the virtual machine's alone

    @cached_property
    def fingerprint(self) -> str:
        """What tells the library from those of other programs: a digest of its functions and kernels."""
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
    def lib(self) -> tvm.runtime.Module | None:
        """The library of kernels; None for a program that has none."""
        library: Any = self.executable.lib
        if library is not None:
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

    def get_lib(self) -> tvm.runtime.Module | None:
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
        return [] if self.lib is None else [self.lib]

    def get_source(self, fmt: str = "") -> str:
        """Return the kernels' source: LLVM's IR, or assembly for ``"asm"``."""
        return "" if self.lib is None else str(self.lib.inspect_source(fmt))

    def export_library(
        self,
        file_name: str | Path,
        fcompile: Callable[..., Any] | None = None,
        addons: Any = None,
        workspace_dir: str | None = None,
        **_: Any,
    ) -> None:
        """Write the model to a file, which ``tvm.runtime.load_module`` reads; it is a vmkit executable.

        `fcompile` links the kernels where it makes shared libraries, such as ``cc.cross_compiler(...)``.
        """
        if addons:
            raise InputError("a model's file takes no addons: link them in fcompile")
        links = getattr(fcompile, "output_format", None) == "so"
        self.executable.export(file_name, linker=fcompile if links else None)

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
