"""Nodes of TVM's compiler that have no settled place, or name."""

from __future__ import annotations

from typing import TypeGuard

from tvm.ir import Call
from tvm.ir.expr import TensorLoad

__all__ = ["TensorLoad", "is_choice"]

# TensorLoad: the node of a read of a buffer; TVM moved it between modules in each of the last releases.


def is_choice(value: object) -> TypeGuard[Call]:
    """Say whether an expression is ``if_then_else``, of which only one of two values is computed."""
    return isinstance(value, Call) and getattr(value.op, "name", "") == "prim.if_then_else"
