"""``tvm.auto_scheduler``: it is gone from TVM, and its names refuse; a log of its records changes nothing."""

from __future__ import annotations

import importlib
from types import ModuleType

from .autotvm import ApplyHistoryBest
from .gone import GONE_MODULES, gone

__all__ = ["ApplyHistoryBest"]

_INSTEAD, _ = GONE_MODULES["tvm.auto_scheduler.search_task"]
_GONE = (
    *("ComputeDAG", "HardwareParams", "LayoutRewriteOption", "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner"),
    *("MeasureInput", "MeasureResult", "RPCRunner", "RandomModel", "RecordReader", "RecordToFile", "SearchTask"),
    *("SketchPolicy", "TaskScheduler", "TuningOptions", "XGBModel", "auto_schedule", "create_task", "extract_tasks"),
    *("is_auto_scheduler_enabled", "load_best_record", "load_records", "register_task_input_check_func"),
    *("register_workload", "remove_index_check", "rewrite_compute_body", "save_records"),
)
vars().update({name: gone(f"tvm.auto_scheduler.{name}", _INSTEAD) for name in _GONE})


def __getattr__(name: str) -> ModuleType:
    """Import a module below this one when it is first named."""
    if f"tvm.auto_scheduler.{name}" not in GONE_MODULES:
        raise AttributeError(f"module 'tvm.auto_scheduler' has no attribute {name!r}")
    return importlib.import_module(f"tvm.auto_scheduler.{name}")
