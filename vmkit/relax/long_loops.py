"""Long loops are two loops, as TVM's ``UnrollLoop`` counts iterations times statements in 32 bits.

Where that product passes 2^31 it is negative, or 0, and so less than what may be unrolled: a loop of 2^31 iterations
is written out, which never ends, and one of 2^32 is taken for none at all and is left out.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from .rewrite import substituted

__all__ = ["cut_long_loops"]

_LONG = 1 << 24  # iterations; a body of more than 128 statements is not in a loop that TVM may unroll
_CUT = 1 << 16


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.CutLongLoops")
def cut_long_loops(
    function: tirx.PrimFunc, _module: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """Return a kernel whose loops of known and many iterations are loops over stretches of them."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _cut))
    return function if body.same_as(function.body) else function.with_body(body)


def _cut(loop: tirx.For) -> tirx.For:
    extent = loop.extent
    if loop.kind != tirx.ForKind.SERIAL or not isinstance(extent, tirx.IntImm) or int(extent.value) < _LONG:
        return loop
    dtype = str(loop.loop_var.ty.dtype)
    cut, none = tirx.IntImm(dtype, _CUT), tirx.IntImm(dtype, 0)
    stretch, place = tirx.Var(f"{loop.loop_var.name}_outer", dtype), tirx.Var(loop.loop_var.name, dtype)
    body = substituted(loop.body, {loop.loop_var: loop.min + stretch * cut + place})
    # The extent of the inner loop is no constant, so it is never unrolled.
    inner = tirx.For(place, none, tirx.min(cut, extent - stretch * cut), loop.kind, body)
    count = tirx.IntImm(dtype, -(-int(extent.value) // _CUT))
    return tirx.For(stretch, none, count, loop.kind, inner, annotations=loop.annotations, span=loop.span)
