"""Names of TVM that have nothing behind them any more: they import, and refuse when they are used.

A script imports such names beside those that it runs. What is refused, and what takes its place, is known at the call.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from vmkit.errors import UnavailableError, suggest

__all__ = ["GONE_MODULES", "GONE_NAMES", "GoneLoader", "gone", "modules_below"]

_TUNE = "vmkit.tophub.tune(model, ...) measures a model's kernels, and vmkit.compile uses what it finds"
_MICRO = "vmkit.mlf.export writes C that any firmware can build"
_AOT = 'vmkit.compile(model, target="c") gives the C of a model\'s kernels, and relay.build runs it here'
_PROFILE = "VirtualMachine.benchmark measures a model"
_FRONTEND = "export the model to ONNX and use relay.frontend.from_onnx"

# By module: what to use in its place, and the names that scripts import from it. (What of AutoTVM and the
# auto-scheduler is more than a refusal stands in modules of its own here.)
GONE_MODULES: dict[str, tuple[str, str]] = {
    "tvm.autotvm.database": (_TUNE, "Database RedisDatabase"),
    "tvm.autotvm.env": (_TUNE, "AutotvmGlobalScope"),
    "tvm.autotvm.feature": (_TUNE, "get_itervar_feature get_flatten_name"),
    "tvm.autotvm.graph_tuner": (_TUNE, "BaseGraphTuner DPTuner PBQPTuner"),
    "tvm.autotvm.measure.executor": (_TUNE, "Executor ExecutionError Future LocalExecutor TimeoutError"),
    "tvm.autotvm.measure.measure_methods": (_TUNE, "check_remote request_remote set_cuda_target_arch"),
    "tvm.autotvm.record": (
        _TUNE,
        "decode encode load_from_file load_from_buffer measure_str_key pick_best split_workload",
    ),
    "tvm.autotvm.task.space": (_TUNE, "ConfigEntity ConfigSpace FallbackConfigEntity OtherOptionEntity SplitEntity"),
    "tvm.autotvm.tuner": (_TUNE, "GATuner GridSearchTuner RandomTuner Tuner XGBTuner callback"),
    "tvm.autotvm.tuner.callback": (_TUNE, "log_to_file progress_bar log_to_database"),
    "tvm.auto_scheduler.measure": (_TUNE, "LocalBuilder LocalRunner LocalRPCMeasureContext RPCRunner measure_option"),
    "tvm.auto_scheduler.relay_integration": (_TUNE, "extract_tasks is_auto_scheduler_enabled"),
    "tvm.auto_scheduler.search_task": (_TUNE, "SearchTask TuningOptions"),
    "tvm.meta_schedule.relay_integration": (_TUNE, "compile_relay extract_tasks tune_relay"),
    "tvm.micro.testing": (_MICRO, "AOT_DEFAULT_RUNNER check_tune_log tune_model"),
    "tvm.micro.testing.aot_test_utils": (_MICRO, "AOT_CORSTONE300_RUNNER AOT_DEFAULT_RUNNER parametrize_aot_options"),
    "tvm.micro.project_api": (_MICRO, "client server"),
    "tvm.contrib.cuda_graph": (_PROFILE, ""),
    "tvm.contrib.cuda_graph.cuda_graph_executor": (_PROFILE, "GraphModuleCudaGraph create"),
    "tvm.contrib.debugger": (_PROFILE, ""),
    "tvm.contrib.debugger.debug_result": (_PROFILE, "DebugResult"),
    "tvm.contrib.pipeline_executor": (_PROFILE, "PipelineModule build"),
    "tvm.tirx.stmt_functor": (
        "TVM has no visitors of TIR in Python any more; a pass of tvm.tirx.transform.prim_func_pass sees each function",
        "ir_transform post_order_visit pre_order_visit renew_defs substitute",
    ),
    "tvm.relay.testing.tf": (_FRONTEND, "AddShapesToGraphDef ProcessGraphDefParam get_workload get_workload_ptb"),
    "tvm.contrib.micro": (_MICRO, "build create_micro_mod"),
    **{
        f"tvm.relay.frontend.{name}": (_FRONTEND, names)
        for name, names in {
            "caffe": "from_caffe",
            "caffe2": "from_caffe2 Caffe2NetDef",
            "coreml": "from_coreml",
            "darknet": "from_darknet",
            "keras": "from_keras",
            "mxnet": "from_mxnet",
            "oneflow": "from_oneflow",
            "paddlepaddle": "from_paddle",
            "pytorch": "from_pytorch PyTorchOpConverter get_relay_ops",
            "tensorflow": "from_tensorflow",
            "tensorflow2": "from_tensorflow",
            "tensorflow_parser": "TFParser",
            "tflite": "from_tflite OperatorConverter",
        }.items()
    },
}


# By module, what of it is gone: what to use in its place, and the names.
GONE_NAMES: dict[str, tuple[str, str]] = {
    "tvm": ("tvm.compile builds TIR, and tvm.tirx.transform has its passes", "lower"),
    "tvm.support": ("a runtime module is made by tvm.compile", "FrontendTestModule"),
    "vmkit.relay": ("relay.analysis.post_order_visit visits nodes, each with its span", "SpanCheck"),
    "vmkit.relay.transform": ("relay.transform.gradient differentiates a function", "FirstOrderGradient"),
    "vmkit.relay.frontend": (
        _FRONTEND,
        "from_caffe from_caffe2 from_coreml from_darknet from_keras from_mxnet from_oneflow from_paddle from_pytorch "
        "from_tensorflow from_tflite",
    ),
}


def gone(name: str, instead: str) -> Any:  # noqa: ANN401 - stands for functions and for classes
    """Return a class under a name of TVM's whose making, and so a function's call, says what to use instead.

    Parameters
    ----------
    name : str
        The name with its module's, such as ``"tvm.autotvm.task.create"``.
    instead : str
        What to use in its place.
    """

    def refuse(cls: type, *_: Any, **__: Any) -> NoReturn:
        raise UnavailableError(f"{name} is gone; {instead}")

    described = f"Refuses to be called: {instead}."
    return type(name.rpartition(".")[2], (), {"__new__": refuse, "__doc__": described, "__module__": __name__})


def modules_below(name: str, known: Iterable[str], kept: Iterable[str] = ()) -> Callable[[str], ModuleType]:
    """Return the ``__getattr__`` of a module that imports one below it when that is first named.

    Parameters
    ----------
    name : str
        The module's, such as ``"tvm.autotvm"``.
    known : iterable of str
        What else it has, of which an error suggests a close name.
    kept : iterable of str
        The modules below it that have something in them.
    """

    def imported(below: str) -> ModuleType:
        whole = f"{name}.{below}"
        if whole in GONE_MODULES or below in kept:
            return importlib.import_module(whole)
        raise AttributeError(f"module {name!r} has no attribute {below!r}{suggest(below, known)}")

    return imported


class _GoneModule(ModuleType):
    """A module whose names all refuse."""

    def __init__(self, name: str, instead: str, names: str) -> None:
        super().__init__(name, f"What {name} had is gone: {instead}.")
        self.__all__ = sorted(names.split())
        vars(self).update({each: gone(f"{name}.{each}", instead) for each in self.__all__})

    def __getattr__(self, name: str) -> ModuleType:
        return modules_below(self.__name__, self.__all__)(name)


class GoneLoader(Loader):
    """Gives a module of :data:`GONE_MODULES`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _GoneModule(spec.name, *GONE_MODULES[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        pass
