"""Passes over Relay modules, run through TVM's own pass infrastructure.

Every module of this package is imported, and the passes that are defined in it are found here by their names:
``relay.transform.Inline()``.
"""

from __future__ import annotations

import importlib
import pkgutil

from tvm.ir.instrument import PassInstrument
from tvm.ir.transform import ModulePass, Pass, PassContext, PassInfo, PrintIR, Sequential

from ... import errors
from ..._tvm import register_errors
from ..analysis.infer_type import call_type, infer_expr, infer_module, inferred, typed
from .a_normal_form import ToANormalFormExpr
from .continuation_passing import to_cps, un_cps
from .defunctionalization import Defunctionalization
from .fold_constant import FoldConstantExpr, fold_constants
from .function_pass import FunctionPass, function_pass
from .gradient import gradient
from .infer_pass import InferTypeLocal
from .inferred_layout import InferCorrectLayoutOutput
from .lambda_lift import lambda_lift
from .layout_config import LayoutConfig
from .module_pass import module_pass
from .recast import recast
from .registry import PASS_NAMES, passes_by_name
from .simplify_inference import simplify_inference

__all__ = [
    "PASS_NAMES",
    "Defunctionalization",
    "FoldConstantExpr",
    "FunctionPass",
    "InferCorrectLayoutOutput",
    "InferTypeLocal",
    "LayoutConfig",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PassInstrument",
    "PrintIR",
    "Sequential",
    "ToANormalFormExpr",
    "call_type",
    "fold_constants",
    "function_pass",
    "gradient",
    "infer_expr",
    "infer_module",
    "inferred",
    "lambda_lift",
    "module_pass",
    "recast",
    "simplify_inference",
    "to_cps",
    "typed",
    "un_cps",
]

register_errors(errors)

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__getattr__, __dir__ = passes_by_name(__name__, "Relay", __all__)
