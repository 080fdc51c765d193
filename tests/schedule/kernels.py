"""Kernels of TE operators, to look at and to run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import s_tir, te, tirx


def kernel(compute: Callable[..., te.Tensor], *shapes: tuple[int | tirx.Var, ...]) -> s_tir.Schedule:
    """Return the schedule of a kernel of operands of some shapes."""
    given = [te.placeholder(shape, name=f"x{at}") for at, shape in enumerate(shapes)]
    return s_tir.Schedule(te.create_prim_func([*given, compute(*given)]))


def call(sch: s_tir.Schedule, *values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return what a scheduled kernel computes."""
    function = sch.mod["main"].with_attr("global_symbol", "main")
    result = tvm.runtime.empty(shape)
    tvm.compile(tvm.IRModule({"main": function}), "llvm")["main"](*map(tvm.runtime.tensor, values), result)
    return result.numpy()
