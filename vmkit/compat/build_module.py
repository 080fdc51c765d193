"""``tvm.relay.build_module.BuildModule``: what ``relay.build`` does, asked for part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm.runtime import Tensor

from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.errors import InputError
from vmkit.executor import TargetLike
from vmkit.relay.ir import Function
from vmkit.target.plan import OneTarget
from vmkit.values.signature import Signature

from .build_choices import Executor, Runtime
from .built_module import BuiltModule
from .graph_executor import build

__all__ = ["BuildModule", "optimize"]


def optimize(
    mod: tvm.IRModule | Function, target: TargetLike = None, params: Mapping[str, Any] | None = None
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the module that is compiled, in Relay, and the parameters that are not bound in it."""
    over = mod if isinstance(mod, tvm.IRModule) else tvm.IRModule({"main": mod})
    return VMCompiler().optimize(over, target, params=params)


class BuildModule:
    """Builds a model and keeps what came of it.

    Examples
    --------
    >>> from vmkit import relay
    >>> x = relay.var("x", shape=(2,))
    >>> builder = BuildModule()
    >>> graph, library, params = builder.build(tvm.IRModule({"main": relay.Function([x], x + x)}), "llvm")
    >>> graph == builder.get_graph_json(), list(builder.get_params())
    (True, [])
    """

    def __init__(self) -> None:
        self._built: BuiltModule | None = None
        self._params: dict[str, Any] = {}

    def build(
        self,
        mod: tvm.IRModule,
        target: TargetLike = None,
        target_host: OneTarget | None = None,
        executor: Executor | str | None = None,
        runtime: Runtime | str | None = None,
        workspace_memory_pools: Sequence[Any] | None = None,
        constant_memory_pools: Sequence[Any] | None = None,
        params: Mapping[str, Any] | None = None,
        mod_name: str | None = None,
    ) -> tuple[str, Any, dict[str, Tensor]]:
        """Return the graph in JSON, the library and the constants of the graph; arguments as for ``relay.build``."""
        pools = workspace_memory_pools, constant_memory_pools
        given = {**self._params, **(params or {})}
        self._built = build(mod, target, target_host, executor, runtime, *pools, given, mod_name)
        return self._built.get_executor_config(), self._built.lib, self._built.get_params()

    def optimize(
        self,
        mod: tvm.IRModule,
        target: TargetLike = None,
        target_host: OneTarget | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[tvm.IRModule, dict[str, Any]]:
        """Return the module that is compiled, in Relay, and the parameters that are not bound in it."""
        return VMCompiler().optimize(mod, target, target_host, {**self._params, **(params or {})})

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Bind parameters of ``main`` in what is built from now on."""
        self._params = dict(params)

    _set_params = set_params

    def _last(self) -> BuiltModule:
        if self._built is None:
            raise InputError("nothing has been built yet, call build first")
        return self._built

    def get_graph_json(self) -> str:
        """Return the graph of the last build."""
        return self._last().get_graph_json()

    def get_module(self) -> Any:  # noqa: ANN401 - a module of TVM's, or what stands for one
        """Return the library of the last build."""
        return self._last().lib

    def get_params(self) -> dict[str, Tensor]:
        """Return the constants of the graph of the last build by name."""
        return self._last().get_params()

    def get_irmodule(self) -> tvm.IRModule:
        """Return the program of the last build."""
        return self._last().ir_mod

    def get_function_metadata(self) -> dict[str, Signature]:
        """Return what the function of the last build takes and gives, by its name in C."""
        return self._last().function_metadata

    def get_devices(self) -> list[str]:
        """Return the devices that a board would be asked for: none."""
        return self._last().get_devices()
