"""Passes over Relay modules, run through TVM's own pass infrastructure.

Every module of this package is imported, and the passes that it registers are found here by their names:
``relay.transform.Inline()``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

from tvm.ir.instrument import PassInstrument
from tvm.ir.transform import ModulePass, Pass, PassContext, PassInfo, PrintIR, Sequential, module_pass

from ... import errors
from ..._tvm import register_error
from ...errors import suggest
from ..analysis.infer_type import call_type, infer_expr, infer_module, typed
from .a_normal_form import ToANormalFormExpr
from .fold_constant import FoldConstantExpr, fold_constants
from .function_pass import FunctionPass, function_pass
from .infer_pass import InferTypeLocal
from .lambda_lift import lambda_lift
from .registry import PASS_NAMES, PASSES
from .simplify_inference import simplify_inference

__all__ = [
    "PASSES",
    "PASS_NAMES",
    "FoldConstantExpr",
    "FunctionPass",
    "InferTypeLocal",
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
    "infer_expr",
    "infer_module",
    "lambda_lift",
    "module_pass",
    "simplify_inference",
    "typed",
]

# A Python error that crosses TVM's pass infrastructure comes back as the class registered under its name.
for _name in errors.__all__:
    if isinstance(getattr(errors, _name), type):
        register_error(_name, getattr(errors, _name))

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in PASSES:
        raise AttributeError(f"Relay has no pass {name!r}{suggest(name, PASSES)}")
    return PASSES[name]


def __dir__() -> list[str]:
    return sorted([*__all__, *PASSES])
