"""Passes over Relay modules, run through TVM's own pass infrastructure."""

from __future__ import annotations

import tvm

from .infer_type import call_type, infer_expr, infer_module

__all__ = ["InferType", "call_type", "infer_expr", "infer_module"]


def InferType() -> tvm.transform.Pass:
    """Return the pass that finds the type of every expression; see :func:`infer_module`."""
    return tvm.transform.module_pass(lambda mod, _: infer_module(mod), opt_level=0, name="InferType")
