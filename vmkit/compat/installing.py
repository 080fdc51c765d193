"""Put Relay's names into ``tvm``."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.runtime import Tensor

from vmkit import executor, relay
from vmkit._tvm import call_global_vars_by
from vmkit.errors import ModelError, UnsupportedOperatorError, VMKitError
from vmkit.relay.ir import Call
from vmkit.relay.json import load_json, save_json

from . import graph_executor, nd, te_build
from .aliases import install_aliases
from .devices import device
from .dnnl import install_dnnl
from .expr import RelayExpr, const
from .ir_module import install_module_methods
from .names import install_names, saved_params
from .nodes import FuncType, install_node_attributes
from .op import install_type_relations
from .passes import install_pass_context
from .pytest_stand_in import import_testing
from .remote_graph import RemoteGraphModule
from .scipy_stand_in import import_topi_testing
from .script import install_script
from .structural import assert_structural_equal
from .targets import install_targets
from .testing import install_testing
from .type_solver import register_relations

__all__ = ["install_all"]


def install_all() -> None:
    """Do what :func:`vmkit.compat.install` does."""
    install_aliases()
    install_module_methods()
    install_node_attributes()
    install_type_relations()
    install_targets()
    install_script()
    install_pass_context()
    install_testing(import_testing())
    import_topi_testing()
    register_relations()
    install_dnnl()
    module: Any = tvm
    relay_module: Any = relay
    # As in Relay's time every error of TVM is one; those of vmkit are, too.
    module.TVMError = module.error.TVMError = RuntimeError
    module.DiagnosticError = module.error.DiagnosticError = VMKitError
    module.error.OpNotImplemented = UnsupportedOperatorError
    module.cl, module.gpu = tvm.opencl, tvm.cuda
    module.build = module.driver.build = te_build.build
    module.te.create_schedule, module.te.Schedule = te_build.create_schedule, te_build.Schedule
    module.device = module.runtime.device = device
    module.runtime.NDArray = nd.NDArray
    module.runtime.load_module = graph_executor.load_module
    relay_module.Expr = RelayExpr
    relay_module.save_param_dict = module.runtime.save_param_dict = saved_params
    module.runtime.load_param_dict = relay_module.load_param_dict
    relay_module.const = const
    module.ir.load_json, module.ir.save_json = _load_json, _save_json
    module.ir.make_node = _make_node
    module.ir.FuncType = FuncType
    # TVM's own prints both sides as TVMScript, which has no form for Relay's nodes.
    module.ir.assert_structural_equal = assert_structural_equal
    # Scripts for Relay call its functions with other functions, or with nothing.
    call_global_vars_by(_called)
    library = module.runtime.Module
    library.__getitem__ = _function_of
    library.get_source = lambda self, fmt="": str(self.inspect_source(fmt))
    library.type_key = property(lambda self: self.kind)
    library.imported_modules = property(lambda self: list(self.imports))
    device_class: Any = tvm.runtime.Device
    device_class.device_type = property(lambda self: self.dlpack_device_type())
    device_class.device_id = property(lambda self: self.index)
    tensor: Any = Tensor
    tensor.asnumpy = lambda self: self.numpy()
    tensor.to_dlpack = lambda self: self.__dlpack__()
    tensor.__setitem__ = _set_whole
    tensor.context = property(lambda self: self.device)
    install_names()
    executor.allow_static_executors(graph_executor.GraphExecutor)


def _called(gvar: tvm.ir.GlobalVar, args: tuple[Any, ...]) -> Call:
    return Call(gvar, args)


def _function_of(self: tvm.runtime.Module, name: str) -> Any:  # noqa: ANN401 - a function, or what makes a model
    """Return a function of a module; of one on another machine also a model that was built here, by its name."""
    if self.kind == "rpc" and not self.implements_function(name):
        return lambda *devices: RemoteGraphModule(self, devices)
    return self.get_function(name)


def _set_whole(self: Tensor, index: slice, value: Tensor | np.ndarray) -> None:
    if index != slice(None):
        raise IndexError("only a whole tensor is written by index: tensor[:] = array")
    self.copyfrom(value)


_make_by_tvm = tvm.ir.make_node
# Fields that had a default, which TVM's own tests leave out.
_DEFAULTS: dict[str, dict[str, Any]] = {"attrs.TestAttrs": {"axis": 10, "padding": [0, 0]}}


def _make_node(type_key: str, **fields: Any) -> tvm_ffi.Object:
    return _make_by_tvm(
        "ir.DictAttrs" if type_key == "DictAttrs" else type_key, **(_DEFAULTS.get(type_key, {}) | fields)
    )


def _load_json(json_str: str) -> object:
    """Read a node, or one of TVM's own containers of nodes."""
    found = load_json(json_str)
    return tvm.runtime.convert(found) if isinstance(found, dict | list) else found


_save_by_tvm = tvm.ir.save_json


def _save_json(node: tvm_ffi.Object) -> str:
    """Write Relay's nodes as TVM 0.14 did, and all others as today's TVM does."""
    try:
        return save_json(node)
    except ModelError:
        return _save_by_tvm(node)
