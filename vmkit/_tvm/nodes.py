"""Classes of nodes of TVM's compiler that have no settled place."""

from __future__ import annotations

from tvm.ir.expr import TensorLoad

__all__ = ["TensorLoad"]

# TensorLoad: the node of a read of a buffer; TVM moved it between modules in each of the last releases.
