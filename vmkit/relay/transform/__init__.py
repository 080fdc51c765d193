"""Passes over Relay modules, run through TVM's own pass infrastructure."""

from __future__ import annotations

import tvm
import tvm_ffi

from ... import errors
from .fold_constant import fold_constants
from .infer_type import call_type, infer_expr, infer_module

__all__ = ["InferType", "call_type", "fold_constants", "infer_expr", "infer_module"]

# A Python error that crosses TVM's pass infrastructure comes back as the class registered under its name.
for _name in errors.__all__:
    if isinstance(getattr(errors, _name), type):
        tvm_ffi.register_error(_name, getattr(errors, _name))


def InferType() -> tvm.transform.Pass:
    """Return the pass that finds the type of every expression; see :func:`infer_module`."""
    return tvm.transform.module_pass(lambda mod, _: infer_module(mod), opt_level=0, name="InferType")
