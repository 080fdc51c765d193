"""Passes over Relay modules, run through TVM's own pass infrastructure."""

from __future__ import annotations

import tvm
import tvm_ffi

from ... import errors
from .canonicalize_ops import canonicalize_ops
from .fold_constant import fold_constants
from .infer_type import call_type, infer_expr, infer_module, typed
from .lambda_lift import lambda_lift
from .simplify_inference import simplify_inference

__all__ = [
    "PASS_NAMES",
    "CanonicalizeOps",
    "FoldConstant",
    "InferType",
    "LambdaLift",
    "SimplifyInference",
    "call_type",
    "canonicalize_ops",
    "fold_constants",
    "infer_expr",
    "infer_module",
    "lambda_lift",
    "simplify_inference",
]

# A Python error that crosses TVM's pass infrastructure comes back as the class registered under its name.
for _name in errors.__all__:
    if isinstance(getattr(errors, _name), type):
        tvm_ffi.register_error(_name, getattr(errors, _name))


def InferType() -> tvm.transform.Pass:
    """Return the pass that finds the type of every expression; see :func:`infer_module`."""
    return tvm.transform.module_pass(lambda mod, _: infer_module(mod), opt_level=0, name="InferType")


def SimplifyInference() -> tvm.transform.Pass:
    """Return the pass that takes operators of training apart; see :func:`simplify_inference`."""
    return tvm.transform.module_pass(
        lambda mod, _: simplify_inference(typed(mod)), opt_level=0, name="SimplifyInference"
    )


def CanonicalizeOps() -> tvm.transform.Pass:
    """Return the pass that writes out quantised operators in others; see :func:`canonicalize_ops`."""
    return tvm.transform.module_pass(lambda mod, _: canonicalize_ops(typed(mod)), opt_level=0, name="CanonicalizeOps")


def FoldConstant(fold_qnn: bool = False) -> tvm.transform.Pass:
    """Return the pass that computes what depends on constants alone; see :func:`fold_constants`."""
    # What runs a program stands above Relay.
    from ...compiler import evaluate

    return tvm.transform.module_pass(
        lambda mod, _: fold_constants(typed(mod), evaluate, fold_qnn), opt_level=2, name="FoldConstant"
    )


def LambdaLift() -> tvm.transform.Pass:
    """Return the pass that makes local functions global; see :func:`lambda_lift`."""
    return tvm.transform.module_pass(lambda mod, _: lambda_lift(typed(mod)), opt_level=0, name="LambdaLift")


PASS_NAMES = frozenset({"CanonicalizeOps", "FoldConstant", "InferType", "LambdaLift", "SimplifyInference"})
