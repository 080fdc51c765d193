"""Names that a room hands on from a higher one: found when they are first used, and all of them in one table.

Imports point down the layers, inside functions too. But Relay's scripts find ``create_executor`` in ``relay``, the
tuner belongs to ``tophub`` for whoever uses it, and folding constants takes a compiler. What a module gives out of a
room above its own is written here, so that nobody has to search for it; ``tests/test_architecture.py`` holds all other
imports to the layers.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from ._deferred import without_collections
from .errors import suggest

__all__ = ["LATER", "named_later"]

# By the module that gives the name out: the name, and where it is. What has no colon is a module.
LATER: dict[str, dict[str, str]] = {
    "vmkit": {
        "ADT": "vmkit.values.conversion:ADT",
        "Executable": "vmkit.executable.executable:Executable",
        "InferenceSession": "vmkit.onnxruntime.session:InferenceSession",
        "PassContext": "vmkit.compiler.options:PassContext",
        "RefValue": "vmkit.values.conversion:RefValue",
        "VMCompiler": "vmkit.compiler.vm_compiler:VMCompiler",
        "VMExecutor": "vmkit.executor:VMExecutor",
        "VirtualMachine": "vmkit.runtime.machine:VirtualMachine",
        "byoc": "vmkit.byoc",
        "cache": "vmkit.cache",
        "check": "vmkit.frontend.onnx.report:check",
        "compile": "vmkit.compiler.vm_compiler:compile",
        "convert": "vmkit.compiler.convert:convert",
        "device": "vmkit.target.devices:device",
        "errors": "vmkit.errors",
        "load": "vmkit.executable.loading:load",
        "load_model": "vmkit.frontend.onnx.folder:load_model",
        "mlf": "vmkit.mlf",
        "onnxruntime": "vmkit.onnxruntime",
        "pages": "vmkit.pages",
        "profiling": "vmkit.profiling",
        "relay": "vmkit.relay",
        "tophub": "vmkit.tophub",
    },
    "vmkit.bytecode": {
        "constants_text": "vmkit.bytecode.listing:constants_text",
        "disassemble": "vmkit.bytecode.listing:disassemble",
        "kernel_names": "vmkit.bytecode.listing:kernel_names",
        "primitives_text": "vmkit.bytecode.listing:primitives_text",
        "stats": "vmkit.bytecode.listing:stats",
        "tail_calls_to_loops": "vmkit.bytecode.loops:tail_calls_to_loops",
    },
    "vmkit.cli.tvmc": {
        "TVMCException": "vmkit.cli.tvmc.exceptions:TVMCException",
        "TVMCImportError": "vmkit.cli.tvmc.exceptions:TVMCImportError",
        "TVMCModel": "vmkit.cli.tvmc.model:TVMCModel",
        "TVMCPackage": "vmkit.cli.tvmc.model:TVMCPackage",
        "TVMCResult": "vmkit.cli.tvmc.model:TVMCResult",
        "autotuner": "vmkit.cli.tvmc.autotuner",
        "common": "vmkit.cli.tvmc.common",
        "compile": "vmkit.cli.tvmc.compiler:compile_model",
        "compiler": "vmkit.cli.tvmc.compiler",
        "composite_target": "vmkit.cli.tvmc.composite_target",
        "config_options": "vmkit.cli.tvmc.config_options",
        "exceptions": "vmkit.cli.tvmc.exceptions",
        "frontends": "vmkit.cli.tvmc.frontends",
        "load": "vmkit.cli.tvmc.frontends:load_model",
        "main": "vmkit.cli.tvmc.main",
        "model": "vmkit.cli.tvmc.model",
        "pass_config": "vmkit.cli.tvmc.pass_config",
        "pass_list": "vmkit.cli.tvmc.pass_list",
        "registry": "vmkit.cli.tvmc.registry",
        "run": "vmkit.cli.tvmc.runner:run_module",
        "runner": "vmkit.cli.tvmc.runner",
        "shape_parser": "vmkit.cli.tvmc.shape_parser",
        "target": "vmkit.cli.tvmc.target",
        "tracker": "vmkit.cli.tvmc.tracker",
        "transform": "vmkit.cli.tvmc.transform",
        "tune": "vmkit.cli.tvmc.autotuner:tune_model",
    },
    "vmkit.relay": {
        "create_executor": "vmkit.executor:create_executor",
        "data_dep_optimization": "vmkit.relay.data_dep_optimization",
        "dataflow_pattern": "vmkit.relay.dataflow_pattern",
        "frontend": "vmkit.relay.frontend",
        "import_from_std": "vmkit.relay.library:import_from_std",
        "json": "vmkit.relay.json",
        "load_json": "vmkit.relay.json:load_json",
        "prelude": "vmkit.relay.prelude",
        "qnn": "vmkit.relay.qnn",
        "quantize": "vmkit.relay.quantize",
        "save_json": "vmkit.relay.json:save_json",
        "testing": "vmkit.relay.testing",
        "transform": "vmkit.relay.transform",
    },
    "vmkit.relay.analysis": {
        "extract_fused_functions": "vmkit.relay.transform.fused_functions:extract_fused_functions",
        "get_calibration_data": "vmkit.compiler.calibration:get_calibration_data",
    },
    "vmkit.relay.frontend": {"from_onnx": "vmkit.frontend.onnx:from_onnx"},
    "vmkit.relay.qnn": {"transform": "vmkit.relay.qnn.transform"},
    "vmkit.relay.quantize.calibration": {"create_executor": "vmkit.executor:create_executor"},
    "vmkit.relay.testing": {"run_as_python": "vmkit.as_python:run_as_python", "to_python": "vmkit.as_python:to_python"},
    "vmkit.relay.transform": {"MergeComposite": "vmkit.relay.dataflow_pattern.merge_composite:MergeComposite"},
    "vmkit.relay.transform.evaluation": {"evaluate": "vmkit.compiler.stages:evaluate"},
    "vmkit.runtime": {
        "RemoteMachine": "vmkit.runtime.remote:RemoteMachine",
        "VirtualMachine": "vmkit.runtime.machine:VirtualMachine",
    },
    "vmkit.target": {
        "TargetPlan": "vmkit.target.plan:TargetPlan",
        "canonical_target": "vmkit.target.plan:canonical_target",
        "command_line": "vmkit.target.plan:command_line",
        "device_name": "vmkit.target.device_types:device_name",
        "device_type": "vmkit.target.device_types:device_type",
        "host_supports": "vmkit.target.host:host_supports",
    },
    "vmkit.tophub": {"tune": "vmkit.tuning:tune"},
}


def named_later(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for the module of a name, which find what :data:`LATER` says of it."""
    later = LATER[module]

    def get(name: str) -> Any:
        if name not in later:
            raise AttributeError(f"module {module!r} has no attribute {name!r}{suggest(name, later)}")
        home, _, attribute = later[name].partition(":")
        with without_collections():
            found = importlib.import_module(home)
        value = getattr(found, attribute) if attribute else found
        setattr(sys.modules[module], name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[module]), *later})

    return get, names_of
