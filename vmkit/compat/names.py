"""Names that Relay's scripts import from elsewhere than where they are now."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from vmkit import executor, relay
from vmkit._tvm import OLD_API
from vmkit.errors import OptionError
from vmkit.relay.prelude import Prelude
from vmkit.values.param_dict import save_param_dict

from . import (
    build_module,
    container,
    frontend_common,
    graph_executor,
    ir_container,
    op,
    op_make,
    structural,
    supply,
    tensor_core,
    type_solver,
    with_fields,
)
from .expr import RelayExpr
from .gone import GONE_NAMES, gone
from .virtual_device import VirtualDevice, make_compilation_config

__all__ = ["install_names"]


class _LayoutModule(ModuleType):
    """The module ``tvm.tirx.layout``, called as the function ``tvm.tir.layout`` was, whose name it took."""

    def __call__(self, layout_str: str, dtype: str = "int32") -> tvm.s_tir.SLayout:
        return tvm.s_tir.slayout(layout_str, dtype)


def install_names() -> None:
    """Put names where scripts look for them; nothing that is there already is changed."""
    importlib.import_module("tvm.tirx.layout").__class__ = _LayoutModule
    for module_name, names in _names().items():
        module = importlib.import_module(module_name)
        for name, value in names.items():
            # A module that finds operators by name has no attribute of this one yet.
            if name not in vars(module):
                setattr(module, name, value)
    for module_name, (instead, refused) in GONE_NAMES.items():
        module = importlib.import_module(module_name)
        for name in refused.split():
            if not hasattr(module, name):
                setattr(module, name, gone(f"{module_name.replace('vmkit.', 'tvm.')}.{name}", instead))


class _AnyIntegerVar(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tvm.tirx.Var) and str(value.ty).startswith("int")

    def __call__(cls, name: str = "size", dtype: str = "int32", span: tvm.ir.Span | None = None) -> tvm.tirx.Var:
        return tvm.tirx.Var(name, dtype, span)


class SizeVar(metaclass=_AnyIntegerVar):
    """A symbol for a dimension: a variable of integers, which TVM does not tell apart from others any more."""


def pretty_print(node: tvm_ffi.Object) -> str:
    """Return a node in Relay's text format."""
    return str(node)


def rand(dtype: str, *shape: int) -> tvm.runtime.Tensor:
    """Return a tensor of random numbers from 0 to 1."""
    return tvm.runtime.tensor(np.asarray(np.random.rand(*shape), dtype))


def build_config(
    opt_level: int = 2,
    required_pass: Iterable[str] | None = None,
    disabled_pass: Iterable[str] | None = None,
    trace: object = None,
) -> tvm.transform.PassContext:
    """Return a ``tvm.transform.PassContext``, which this was called before."""
    if trace is not None:
        raise OptionError("passes are traced by PassContext(instruments=[...]), not by trace")
    return tvm.transform.PassContext(opt_level, required_pass, disabled_pass)


def saved_params(params: Mapping[str, Any]) -> bytearray:
    """Return arrays by name as bytes, in TVM's format."""
    return bytearray(save_param_dict(params))


def _names() -> dict[str, dict[str, Any]]:
    kinds = {"TypeKind": relay.Kind, "Span": tvm.ir.Span, "SourceName": tvm.ir.SourceName, "pretty_print": pretty_print}
    affine = {n: getattr(relay, n) for n in ("AffineType", "TensorAffineType", "TupleAffineType")}
    building = {
        "build": graph_executor.build,
        "create_executor": executor.create_executor,
        "optimize": build_module.optimize,
    }
    registering = {n: getattr(op, n) for n in ("register_compute", "register_pattern", "register_stateful")}
    types = {n: getattr(relay, n) for n in ("GlobalTypeVar", "IncompleteType", "TypeRelation", "TypeVar")}
    again = {n: getattr(with_fields, n) for n in with_fields.__all__ if n.endswith("WithFields")}
    composed = {n: getattr(relay, n) for n in ("logsumexp", "mean_std", "mean_variance", "segment_sum", "std")}
    memory_pools = importlib.import_module("tvm.ir.memory_pools")
    pools = {n: getattr(memory_pools, n) for n in memory_pools.__all__}
    images, randoms = ({n: getattr(m, n) for n in dir(m) if not n.startswith("_")} for m in (relay.image, relay.random))
    return {
        "tvm": {
            "convert": tvm.runtime.convert,
            "register_func": tvm_ffi.register_global_func,
            "container": ir_container,
            **pools,
        },
        "tvm.ir": {
            **pools,
            "RelayExpr": RelayExpr,
            "structural_equal": structural.structural_equal,
            "structural_hash": structural.structural_hash,
            "TensorType": relay.TensorType,
            **types,
            **affine,
            **kinds,
        },
        "tvm.ir.supply": {"GlobalVarSupply": supply.GlobalVarSupply, "NameSupply": supply.NameSupply},
        "tvm.target": {"VirtualDevice": VirtualDevice, "make_compilation_config": make_compilation_config},
        "tvm.runtime": {"ADT": container.ADT, "String": container.String},
        "tvm.te": {"size_var": SizeVar},
        "tvm.topi.nn": {n: getattr(tensor_core, n) for n in tensor_core.__all__},
        "tvm.tirx": {
            "SizeVar": SizeVar,
            "Any": relay.Any,
            "StringImm": tvm.ir.StringImm,
            "bijective_layout": tvm.s_tir.sbijective_layout,
            "stmt_functor": importlib.import_module("tvm.tirx.stmt_functor"),
        },
        "tvm.tirx.script": {"block": tvm.tirx.script.sblock},
        "tvm.tirx.expr": {"PrimExprWithOp": tvm.ir.expr.ExprWithOp},
        "vmkit.relay": {
            **kinds,
            **building,
            **again,
            "build_config": build_config,
            "SequentialSpan": tvm.ir.SequentialSpan,
        },
        "vmkit.relay.analysis": {OLD_API: type_solver.CPP_FUNCTIONS},
        "vmkit.relay.frontend": {"common": frontend_common, "onnx": importlib.import_module("vmkit.frontend.onnx")},
        "vmkit.compat.expr": again,
        "vmkit.relay.nn": {"Constant": relay.Constant, "const": relay.const},
        "vmkit.relay.ir": kinds,
        "vmkit.relay.build_module": {
            **building,
            "AotExecutor": graph_executor.GraphExecutor,
            "BuildModule": build_module.BuildModule,
            "GraphExecutor": graph_executor.GraphExecutor,
        },
        "vmkit.relay.testing": {"rand": rand, "Prelude": Prelude},
        "vmkit.relay.op": {**registering, **composed, "reverse_reshape": relay.reverse_reshape, "tensor": relay.op}
        | {"const": relay.const, "_make": op_make},
        "vmkit.relay.qnn.op": {"qnn": relay.qnn.op},
        "vmkit.relay.op.image": images,
        "vmkit.relay.op.random": randoms,
        "vmkit.relay.op.nn": {n: getattr(relay.nn, n) for n in relay.nn.__all__} | {"nn": relay.nn},
        "vmkit.relay.transform": {OLD_API: relay.transform},
    }
