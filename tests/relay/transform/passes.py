"""What the tests of passes share: run a pass on an expression, and compare structures."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi

from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.transform import InferType


def module(expr: Any, *params: relay.Var) -> tvm.IRModule:
    """Return a typed module of an expression over its free variables, or of a function."""
    if not isinstance(expr, relay.Function):
        expr = relay.Function(list(params) or relay.analysis.free_vars(expr), expr)
    return InferType()(tvm.IRModule({"main": expr}))


def after(run: tvm.transform.Pass, expr: Any, *params: relay.Var) -> relay.Function:
    return run(module(expr, *params))["main"]


def assert_becomes(run: tvm.transform.Pass, before: Any, expected: Any, *params: relay.Var) -> None:
    """Assert that a pass makes one expression another; both are over the same parameters."""
    params = params or tuple(relay.analysis.free_vars(before))
    got, wanted = after(run, before, *params), module(expected, *params)["main"]
    assert tvm_ffi.structural_equal(got, wanted), f"got\n{got}\nexpected\n{wanted}"


def operators(function: Any) -> list[str]:
    return [n.op.name for n in post_order(function) if isinstance(n, relay.Call) and isinstance(n.op, tvm.ir.Op)]
