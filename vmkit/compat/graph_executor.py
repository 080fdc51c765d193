"""``tvm.contrib.graph_executor`` and ``relay.build``: static models, on the virtual machine."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.runtime import Device

from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.errors import InputError, OptionError
from vmkit.executable.executable import Executable
from vmkit.executable.loading import load as load_executable
from vmkit.executor import TargetLike, VMExecutor
from vmkit.relay.ir import Function
from vmkit.target import canonical_target
from vmkit.target.plan import OneTarget

from .build_choices import Executor, Runtime
from .built_module import AOTExecutorFactoryModule, BuiltModule, GraphExecutorFactoryModule
from .graph_module import GraphModule
from .graph_program import Source
from .remote_graph import RemoteGraphModule
from .vm_executable import ExecutableModule

__all__ = ["GraphExecutor", "GraphModule", "build", "create", "load_module"]

logger = logging.getLogger(__name__)

_DEFAULT = Executor("graph")


class GraphExecutor(VMExecutor):
    """The executor of kind ``"graph"``: the virtual machine, whose executor converts inputs as that one did."""


def build(
    ir_mod: tvm.IRModule | Function,
    target: TargetLike = None,
    target_host: OneTarget | None = None,
    executor: Executor | str | None = _DEFAULT,
    runtime: Runtime | str | None = None,
    workspace_memory_pools: Sequence[Any] | None = None,
    constant_memory_pools: Sequence[Any] | None = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str | None = "default",
) -> BuiltModule:
    """Return a model compiled for a target, with ``relay.build``'s signature. It runs on the virtual machine.

    Parameters
    ----------
    ir_mod : tvm.IRModule or Function
        The program.
    target, target_host : optional
        What to compile for; see :func:`vmkit.target.canonical_target`. By default what an entered ``Target`` says.
    executor, runtime : Executor, Runtime or their names, optional
        How TVM 0.14 would have run it; an interface of theirs that is not there is logged as a warning.
    params : mapping of str to array, optional
        Values of parameters of ``main``.
    mod_name : str, optional
        The name under which the model is found: ``lib[mod_name](device)``.

    Raises
    ------
    InputError
        For memory pools, which only boards have.
    OptionError
        For an executor or a runtime that there is not.
    """
    if not isinstance(ir_mod, tvm.IRModule | Function):
        raise ValueError(f"Type of input parameter mod must be tvm.IRModule, not {type(ir_mod).__name__}")
    if workspace_memory_pools is not None or constant_memory_pools is not None:
        raise InputError("memory pools are of the ahead-of-time executor on boards, which is gone")
    chosen = _chosen(executor, Executor, _DEFAULT)
    _warn_of(chosen, _chosen(runtime, Runtime, Runtime("cpp")))
    if isinstance(ir_mod, Function):
        warnings.warn("relay.build takes a module: pass tvm.IRModule.from_expr(function)", DeprecationWarning, 2)
    mod = tvm.IRModule({"main": ir_mod}) if isinstance(ir_mod, Function) else ir_mod
    plan = canonical_target(target, target_host)
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, plan)
    compiler.codegen()
    kind = AOTExecutorFactoryModule if chosen.name == "aot" else GraphExecutorFactoryModule
    return kind(compiler.get_exec(), mod_name or "default", Source(mod, params or {}, plan, chosen))


def _chosen(given: Any, kind: type[Any], default: Any) -> Any:
    if given is None:
        return default
    if isinstance(given, str):
        return kind(given)
    if not isinstance(given, kind):
        raise OptionError(f"expected a relay.backend.{kind.__name__}, got {type(given).__name__}")
    return given


def _warn_of(executor: Executor, runtime: Runtime) -> None:
    if executor.name == "aot" and {"interface-api", "unpacked-api"} & set(executor.options):
        logger.warning("relay.build: the model runs on the virtual machine, and has no interface in C: %r", executor)
    if runtime.name == "crt":
        logger.warning("relay.build: the model runs on the virtual machine, and not on the runtime for boards")


def create(
    graph_json_str: str, libmod: BuiltModule | tvm.runtime.Module, device: Device | Sequence[Device]
) -> GraphModule:
    """Return a built model on a device, from the graph and the library that ``relay.build`` gave.

    Raises
    ------
    ValueError
        When `device` is none.
    InputError
        When the library is none of ``relay.build``'s, or the graph is of another program.
    """
    devices: list[Any] = list(device) if isinstance(device, list | tuple) else [device]
    if isinstance(libmod, tvm.runtime.Module) and libmod.kind == "rpc":
        return RemoteGraphModule(libmod, devices)
    built = built_of(graph_json_str, libmod, devices)
    return GraphModule(built[built.libmod_name](*devices))


def built_of(graph_json_str: str, libmod: BuiltModule | tvm.runtime.Module, devices: Sequence[Device]) -> BuiltModule:
    """Return what ``relay.build`` gave, by its library; graph and devices are checked as :func:`create` does."""
    if not all(isinstance(each, Device) for each in devices):
        raise ValueError("dev has to be the type of Device or a list of Device")
    built = libmod if isinstance(libmod, BuiltModule) else getattr(libmod, "built", None)
    if built is None:
        raise InputError(
            "a graph runs with the library that relay.build gave for it, or that was loaded from its file; this "
            f"{type(libmod).__name__} is none"
        )
    _check_fits(graph_json_str, built)
    return built


def _check_fits(graph_json_str: str, built: BuiltModule) -> None:
    try:
        program = json.loads(graph_json_str).get("metadata", {}).get("program") if graph_json_str else built.fingerprint
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"the graph is not one that relay.build gave: {error}") from None
    if program != built.fingerprint:
        reason = "of another program than the library" if program else "not one of vmkit's"
        raise InputError(
            f"the graph is {reason}: build the model with relay.build and pass the graph and lib that it gives"
        )


_own_load_module = tvm.runtime.load_module


def load_module(path: str | Path, fmt: str = "") -> BuiltModule | tvm.runtime.Module:
    """Return what ``export_library`` wrote: a built model, or any other module of TVM's."""
    with open(path, "rb") as file:
        is_executable = file.read(4) == b"PK\x03\x04"
    if is_executable:
        found = load_executable(path)
        return _built(found) or BuiltModule(found)
    module = _own_load_module(str(path))
    if module.kind != "relax.VMExecutable":
        return module
    library = ExecutableModule.over(module)
    return _built(library.executable) or library


def _built(executable: Executable) -> BuiltModule | None:
    """Return the model that a file was written for by its name; None for a file of functions."""
    graph = executable.info.graph
    return None if graph is None else BuiltModule(executable, graph["name"])
