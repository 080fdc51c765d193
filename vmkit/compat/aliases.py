"""Modules under their old names: ``tvm.relay.op`` is found where ``vmkit.relay.op`` is."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType

from vmkit._tvm import OLD_BACKEND, OLD_FFI

from .gone import GONE_MODULES, GoneLoader

__all__ = ["MODULES", "install_aliases"]

# Old name: today's. A module below one of the names is looked for below its counterpart.
MODULES = {
    "tvm.relay": "vmkit.relay",
    "tvm.relay.backend": "vmkit.compat.backend",
    OLD_BACKEND: "vmkit.compat.backend_api",
    "tvm.relay.backend.executor": "vmkit.compat.build_choices",
    "tvm.relay.backend.executor_factory": "vmkit.compat.executor_factory",
    "tvm.relay.backend.graph_executor_codegen": "vmkit.compat.graph_executor_codegen",
    "tvm.relay.backend.name_transforms": "vmkit.compat.name_transforms",
    "tvm.relay.backend.runtime": "vmkit.compat.build_choices",
    "tvm.relay.backend.te_compiler": "vmkit.compat.te_compiler",
    "tvm.relay.backend.utils": "vmkit.compat.backend_names",
    "tvm.relay.backend.vm": "vmkit.compat.vm",
    "tvm.relay.backend.interpreter": "vmkit.compat.interpreter",
    "tvm.relay.vm": "vmkit.compat.vm",
    "tvm.relay.adt": "vmkit.relay.ir",
    "tvm.relay.base": "vmkit.relay.ir",
    "tvm.relay.expr": "vmkit.compat.expr",
    "tvm.relay.frontend.common": "vmkit.compat.frontend_common",
    "tvm.relay.frontend.onnx": "vmkit.frontend.onnx",
    "tvm.relay.function": "vmkit.relay.ir",
    "tvm.relay.ty": "vmkit.relay.ir",
    "tvm.relay.param_dict": "vmkit.values.param_dict",
    "tvm.relay.parser": "vmkit.relay.text",
    "tvm.relay.op.algorithm": "vmkit.relay.op",
    "tvm.relay.op.contrib.dnnl": "vmkit.compat.dnnl",
    "tvm.relay.op.contrib.ethosn": "vmkit.compat.accelerators",
    "tvm.relay.op.nn.nn": "vmkit.relay.nn",
    "tvm.relay.op.op": "vmkit.compat.op",
    "tvm.relay.op.random": "vmkit.relay.random",
    "tvm.relay.op.reduce": "vmkit.relay.op",
    "tvm.relay.op.tensor": "vmkit.relay.op",
    "tvm.relay.op.transform": "vmkit.relay.op",
    "tvm.relay.testing.py_converter": "vmkit.as_python",
    "tvm.relay.testing.temp_op_attr": "vmkit.compat.temp_op_attr",
    "tvm.relay.transform.infer_layout_utils": "vmkit.relay.transform.inferred_layout",
    "tvm.relay.transform.transform": "vmkit.relay.transform",
    "tvm.auto_scheduler": "vmkit.compat.auto_scheduler",
    "tvm.autotvm": "vmkit.compat.autotvm",
    "tvm.autotvm.measure": "vmkit.compat.autotvm_measure",
    "tvm.autotvm.task": "vmkit.compat.autotvm_task",
    "tvm.autotvm.task.dispatcher": "vmkit.compat.autotvm",
    "tvm.autotvm.task.relay_integration": "vmkit.compat.autotvm_task",
    "tvm.ir.container": "vmkit.compat.ir_container",
    "tvm.ir.diagnostics": "vmkit.relay.diagnostics",
    "tvm.ir.memory_pools": "vmkit.compat.memory_pools",
    "tvm.meta_schedule": "tvm.s_tir.meta_schedule",
    "tvm.micro": "vmkit.compat.micro",
    "tvm.micro.model_library_format": "vmkit.compat.model_library_format",
    "tvm.micro.testing.utils": "vmkit.compat.micro_networks",
    "tvm.parser": "vmkit.relay.text",
    "tvm.nd": "vmkit.compat.nd",
    "tvm.runtime.ndarray": "vmkit.compat.nd",
    "tvm.ir.affine_type": "vmkit.relay.ir.affine_types",
    "tvm.relay.qnn.op.op": "vmkit.compat.op",
    "tvm.relay.qnn.op.qnn": "vmkit.relay.qnn.op",
    "tvm.topi.sparse": "vmkit.compat.topi_sparse",
    "tvm.topi.sparse.utils": "vmkit.compat.topi_sparse",
    "tvm.topi.arm_cpu": "vmkit.relay.qnn.op",
    "tvm.topi.arm_cpu.qnn_legalize": "vmkit.relay.qnn.op.channel_stripping",
    "tvm.runtime.container": "vmkit.compat.container",
    "tvm.runtime.executor": "vmkit.compat.aot_executor",
    "tvm.runtime.name_transforms": "vmkit.compat.name_transforms",
    "tvm.runtime.profiler_vm": "vmkit.compat.profiler_vm",
    "tvm.runtime.profiling": "vmkit.compat.profiling",
    "tvm.runtime.vm": "vmkit.compat.vm",
    "tvm.contrib.debugger.debug_executor": "vmkit.compat.debug_executor",
    "tvm.contrib.graph_executor": "vmkit.compat.graph_executor",
    "tvm.contrib.target": "vmkit.compat.accelerators",
    "tvm.contrib.target.vitis_ai": "vmkit.compat.accelerators",
    "tvm.driver.tvmc": "vmkit.cli.tvmc",
    "tvm.driver.tvmc.result_utils": "vmkit.cli.tvmc.runner",
    "tvm.script.tir": "tvm.tirx.script",
    "tvm.testing.aot": "vmkit.compat.testing_aot",
    "tvm.tir": "tvm.tirx",
    "tvm.testing.plugin": "vmkit.compat.pytest_plugin",
    OLD_FFI: "vmkit.compat.ffi",
    **{f"{OLD_FFI}.{name}": "vmkit.compat.ffi" for name in ("base", "registry", "runtime_ctypes")},
}


# What TVM moved from one of its packages to another.
_MOVED = ("cc", "ndk", "nvcc", "popen_pool", "tar", "utils")
MODULES |= {f"tvm.contrib.{name}": f"tvm.support.{name}" for name in _MOVED}
# What is only ever imported by its name: the first needs pytest, the others cost time.
_LATER = (
    *("tvm.testing.plugin", "tvm.testing.aot", "tvm.auto_scheduler", "tvm.autotvm", "tvm.meta_schedule"),
    *("tvm.micro", "tvm.micro.model_library_format", "tvm.micro.testing.utils"),
    *(
        "tvm.autotvm.measure",
        "tvm.autotvm.task",
        "tvm.autotvm.task.dispatcher",
        "tvm.autotvm.task.relay_integration",
        "tvm.driver.tvmc",
        "tvm.driver.tvmc.result_utils",
    ),
)
# What another package has in some releases, and scripts import where it is not.
_WHERE_MISSING = {"onnx.mapping": "vmkit.compat.onnx_mapping"}


class _AliasLoader(Loader):
    """Gives the module of another name."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has written the alias into the module, which belongs to its own name.
        module.__spec__ = self.spec


class _AliasFinder(MetaPathFinder):
    """Finds modules by their old names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in GONE_MODULES:
            return ModuleSpec(fullname, GoneLoader(), is_package=True)
        if fullname in _WHERE_MISSING and PathFinder.find_spec(fullname, path, target) is None:
            return ModuleSpec(fullname, _AliasLoader(_WHERE_MISSING[fullname]))
        real = _todays_name(fullname)
        if real is None or find_spec(real) is None:
            return None
        return ModuleSpec(fullname, _AliasLoader(real), is_package=True)


def _todays_name(name: str) -> str | None:
    if name in MODULES:
        return MODULES[name]
    parent, _, last = name.rpartition(".")
    if not parent:
        return None
    real = _todays_name(parent)
    return None if real is None else f"{real}.{last}"


def install_aliases() -> None:
    """Let ``import`` find the modules of :data:`MODULES`, and give ``tvm`` those that its scripts reach by dots."""
    if any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _AliasFinder())
    for name in (each for each in MODULES if each not in _LATER):
        parent, _, last = name.rpartition(".")
        owner = importlib.import_module(parent)
        # A module that today's TVM has under the same name gives way; it stays importable by its present home.
        sys.modules.pop(name, None)
        module = importlib.import_module(name)
        if not parent.startswith("tvm.relay"):
            setattr(owner, last, module)
