"""The names that ``disabled_pass`` and ``required_pass`` may use.

TVM compares these names with those of the passes it runs and ignores the ones it never meets, so a misspelt name does
nothing. Here is every name there is.
"""

from __future__ import annotations

import functools

from .. import optimize  # noqa: F401 - registers its passes
from .._tvm import global_function_names
from ..relay.transform import PASS_NAMES

__all__ = ["RELAY_ONLY", "RENAMED", "known_passes", "todays_name"]

# Passes of vmkit's that are not Relay's.
_AFTER_RELAY = frozenset({"GroupKernels", "NameSizes", "RoundStorage", "ShareKernels"})

# The dialects whose passes carry its name in front: tirx.transform.VectorizeLoop makes the pass "tirx.VectorizeLoop".
_PREFIXED = ("tirx", "s_tir")

_CONSTRUCTORS = ("CreatePrimFuncPass", "MakeDataflowBlockPass", "MakeFunctionPass")

# Passes whose name does not follow from the function that makes them, and those that TVM defines in Python.
_OTHER_NAMES = frozenset(
    {
        "AppendReshapeToBN",
        "ApplyDefaultSchedule",
        "AttachExternModules",
        "CanonicalizeRelaxBindings",
        "CanonicalizeTIRVariables",
        "DataflowInsertInPlaceCalls",
        "DecomposeOps",
        "DefaultGPUSchedule",
        "DispatchSampling",
        "DispatchSortScan",
        "ExpandTupleArgumentsInner",
        "FastMathTransform",
        "FoldBatchnormToConv2D",
        "FuseTIRInner",
        "FuseTransposeMatmul",
        "IPCAllReduceRewrite",
        "LazyTransformParams",
        "LowerGPUIPCAllocStorage",
        "OptimizeLayoutTransform",
        "PrintIR",
        "RemoveRedundantReshape",
        "s_tir.InsertHoistIfThenElse",
    }
)

# Passes of Relay (TVM 0.14) that vmkit has no counterpart of. Disabling one asks for what is so already.
RELAY_ONLY = frozenset(
    {
        "AnnotateMemoryScope",
        "AutoSchedulerLayoutRewrite",
        "FirstOrderGradient",
        "InlineComposites",
        "InlinePrimitives",
        "LabelOps",
        "LazyGradientInit",
        "LiftConstants",
        "MemoryOpt",
        "MemoryPlan",
        "MetaScheduleLayoutRewrite",
        "PlanDevicesCore",
        "PlanDevicesRewrite",
        "RemoveStandaloneReshapes",
    }
)

# Passes of vmkit's that had other names.
RENAMED = {
    "UsePanels": "UsePackedGemm",
    "UsePhases": "UseSubpixel",
    "PackTiles": "PackAMXTiles",
}


def known_passes() -> frozenset[str]:
    """Return the name of every pass of TVM and of vmkit."""
    return _tvm_passes() | PASS_NAMES | _AFTER_RELAY


def todays_name(name: str) -> str:
    """Return what pass `name` is called today.

    ``tir.X`` became ``tirx.X`` or ``s_tir.X``, and some of vmkit's own are in :data:`RENAMED`; others keep their name.

    >>> todays_name("UsePanels")
    'UsePackedGemm'
    >>> todays_name("tir.VectorizeLoop"), todays_name("tir.LoopPartition"), todays_name("FuseOps")
    ('tirx.VectorizeLoop', 's_tir.LoopPartition', 'FuseOps')
    """
    prefix, dot, rest = name.partition(".")
    if not dot or prefix != "tir":
        return RENAMED.get(name, name)
    return next((new for new in (f"{dialect}.{rest}" for dialect in _PREFIXED) if new in known_passes()), name)


@functools.cache
def _tvm_passes() -> frozenset[str]:
    names = set(_OTHER_NAMES)
    for function in global_function_names():
        scope, found, name = function.rpartition(".transform.")
        if not found or not name[:1].isupper() or name in _CONSTRUCTORS:
            continue
        names.add(f"{scope}.{name}" if scope.partition(".")[0] in _PREFIXED else name)
    return frozenset(names)
