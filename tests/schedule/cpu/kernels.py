"""Small kernels to schedule by hand, and what a scheduled one computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import tvm
import tvm_ffi
from tvm import s_tir, te, tirx

from vmkit.schedule.blocks import Loop, kernel_blocks

__all__ = ["called", "doubled", "loops_in", "loops_of"]


def doubled(*shape: int | tirx.Var) -> s_tir.Schedule:
    """Return the schedule of a kernel that doubles every element."""
    x = te.placeholder(shape, name="x")
    return s_tir.Schedule(te.create_prim_func([x, te.compute(shape, lambda *i: x[i] * 2, name="doubled")]))


def loops_of(sch: s_tir.Schedule) -> list[Loop]:
    """Return the loops of a kernel's last block."""
    return list(sch.get_loops(kernel_blocks(sch)[-1]))


def loops_in(function: tirx.PrimFunc) -> Iterator[tuple[str, str]]:
    """Yield the names and extents of a kernel's loops, the outermost first."""
    found: list[tirx.For] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append))
    yield from ((str(loop.loop_var.name), str(loop.extent)) for loop in reversed(found))


def called(function: tirx.PrimFunc, values: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return what a kernel computes of some values; elements that it does not write are NaN."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    result = tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
    tvm.compile(module, "llvm")["main"](*map(tvm.runtime.tensor, values), result)
    return result.numpy()
