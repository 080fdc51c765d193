"""``tvm.auto_scheduler``: it is gone from TVM, and its names refuse; a log of its records changes nothing."""

from __future__ import annotations

from .autotvm import ApplyHistoryBest
from .gone import GONE_MODULES, gone, modules_below

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


__getattr__ = modules_below("tvm.auto_scheduler", _GONE)
