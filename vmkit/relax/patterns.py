"""Which operators may be computed where another one's results are: TVM's own answer, with what it takes wrongly.

TVM looks at indices alone: a kernel that reads each element at the place that it writes is elementwise to it, also
one with more places than its argument has elements, such as a pad behind the last of a row. Joined to a pool or a sum,
which run once for each of their results, the further places would be written never.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.relax import transform
from tvm.sym import Analyzer

from .._tvm.nodes import TensorLoad
from .rewrite import with_functions

__all__ = ["annotate_patterns"]

_PATTERN = "op_pattern"
# The numbers of TVM's patterns.
_BROADCAST, _INJECTIVE = 1, 2


def annotate_patterns() -> tvm.transform.Pass:
    """Return TVM's ``AnnotateTIROpPattern``, whose elementwise kernels write as many places as they read."""
    annotate = transform.AnnotateTIROpPattern()

    def run(mod: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        given = {v for v, f in mod.functions.items() if _PATTERN in (f.attrs or {})}
        mod = annotate(mod)
        wrong = {v: f for v, f in mod.functions.items() if v not in given and _writes_more(f)}
        return with_functions(mod, {v: f.with_attr(_PATTERN, _INJECTIVE) for v, f in wrong.items()})

    return tvm.transform.module_pass(run, opt_level=0, name=annotate.info.name)


def _writes_more(function: ir.BaseFunc) -> bool:
    """Say whether a kernel that TVM calls elementwise, or a broadcast, has other sizes than what it reads."""
    if not isinstance(function, tirx.PrimFunc) or int((function.attrs or {}).get(_PATTERN, _INJECTIVE)) > _BROADCAST:
        return False
    analyzer = Analyzer()
    return any(not analyzer.can_prove_equal(read, written) for read, written in _sizes(function))


def _sizes(function: tirx.PrimFunc) -> Iterator[tuple[tirx.Expr, tirx.Expr]]:
    """Yield the size of each axis that a kernel reads by one of its loops, and the trip count of that loop."""
    blocks: list[s_tir.SBlock] = []
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, blocks.append))
    for block in blocks:
        counts = {v.var: v.dom.extent for v in block.iter_vars}
        loads: list[TensorLoad] = []
        tvm_ffi.structural_walk(block.body, (TensorLoad, loads.append))
        for load in loads:
            for index, size in zip(load.indices, load.source.shape, strict=True):
                if index in counts:
                    yield size, counts[index]
