"""Names that Relay's scripts import from elsewhere than where they are now."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from vmkit import executor, relay
from vmkit.compiler.vm_compiler import VMCompiler
from vmkit.executor import TargetLike
from vmkit.relay.ir import Function
from vmkit.relay.prelude import Prelude

from . import container, graph_executor, op
from .expr import RelayExpr

__all__ = ["Executor", "Runtime", "install_names"]


@dataclass(frozen=True)
class Executor:
    """The choice of an executor; there is one now, and ``relay.build`` says so when it is given another."""

    name: str
    options: Any = None


@dataclass(frozen=True)
class Runtime:
    """The choice of a runtime; there is one now, and ``relay.build`` says so when it is given another."""

    name: str
    options: Any = None


def install_names() -> None:
    """Put names where scripts look for them; nothing that is there already is changed."""
    for module_name, names in _names().items():
        module = importlib.import_module(module_name)
        for name, value in names.items():
            # A module that finds operators by name has no attribute of this one yet.
            if name not in vars(module):
                setattr(module, name, value)


def size_var(name: str = "size", dtype: str = "int32", span: tvm.ir.Span | None = None) -> tvm.tirx.Var:
    """Return a symbol for a dimension."""
    return tvm.tirx.Var(name, dtype, span)


def optimize(
    mod: tvm.IRModule | Function, target: TargetLike = None, params: Mapping[str, Any] | None = None
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """Return the module that is compiled, in Relay, and the parameters that are not bound in it."""
    over = mod if isinstance(mod, tvm.IRModule) else tvm.IRModule({"main": mod})
    return VMCompiler().optimize(over, target, params=params)


def pretty_print(node: tvm_ffi.Object) -> str:
    """Return a node in Relay's text format."""
    return str(node)


def rand(dtype: str, *shape: int) -> tvm.runtime.Tensor:
    """Return a tensor of random numbers from 0 to 1."""
    return tvm.runtime.tensor(np.asarray(np.random.rand(*shape), dtype))


def _names() -> dict[str, dict[str, Any]]:
    kinds = {"TypeKind": relay.Kind, "Span": tvm.ir.Span, "SourceName": tvm.ir.SourceName, "pretty_print": pretty_print}
    building = {"build": graph_executor.build, "create_executor": executor.create_executor, "optimize": optimize}
    registering = {n: getattr(op, n) for n in ("register_compute", "register_pattern", "register_stateful")}
    composed = {n: getattr(relay, n) for n in ("logsumexp", "mean_std", "mean_variance", "segment_sum", "std")}
    images, randoms = ({n: getattr(m, n) for n in dir(m) if not n.startswith("_")} for m in (relay.image, relay.random))
    return {
        "tvm": {"convert": tvm.runtime.convert, "register_func": tvm_ffi.register_global_func},
        "tvm.ir": {
            "RelayExpr": RelayExpr,
            "structural_equal": relay.structural_equal,
            "structural_hash": relay.structural_hash,
            "TensorType": relay.TensorType,
            **kinds,
        },
        "tvm.runtime": {"ADT": container.ADT, "String": container.String},
        "tvm.te": {"size_var": size_var},
        "tvm.tirx": {"SizeVar": size_var, "Any": relay.Any},
        "vmkit.relay": {**kinds, **building},
        "vmkit.relay.ir": kinds,
        "vmkit.relay.build_module": building,
        "vmkit.relay.testing": {"rand": rand, "Prelude": Prelude},
        "vmkit.relay.op": {**registering, **composed, "reverse_reshape": relay.reverse_reshape, "tensor": relay.op},
        "vmkit.relay.op.image": images,
        "vmkit.relay.op.random": randoms,
        "vmkit.relay.op.nn": {n: getattr(relay.nn, n) for n in relay.nn.__all__} | {"nn": relay.nn},
        "vmkit.compat.backend": {"Executor": Executor, "Runtime": Runtime},
    }
