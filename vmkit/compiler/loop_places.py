"""Where several loops were made one, the places that divisions give are computed once in each of its iterations.

A loop over all lines of an image finds image and line of its number by divisions. What reads them may stand behind
tests, such as for the padding of each element, and LLVM moves no division out of these, for it might be by 0: each
element was divided for anew, which took three quarters of the time of a padding.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx

from .nonnegative_division import Signs

__all__ = ["compute_places_once"]

_QUOTIENTS = (tirx.FloorDiv, tirx.FloorMod)


@tirx.transform.prim_func_pass(opt_level=0, name="vmkit.ComputePlacesOnce")
def compute_places_once(
    function: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """Have loops with others in them compute first what their number divided by sizes is."""
    found: list[tirx.Expr] = []
    tvm_ffi.structural_walk(function.body, [(kind, found.append) for kind in _QUOTIENTS])
    if all(isinstance(quotient.b, tirx.IntImm) for quotient in found):
        return function
    signs = Signs(function)

    def with_places(loop: tirx.For) -> tirx.For:
        return _Places(loop, signs).loop()

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, with_places)))


class _Places:
    """The quotients of a loop's variable that the loops in it need."""

    def __init__(self, loop: tirx.For, signs: Signs) -> None:
        self._loop, self._signs = loop, signs
        self._inner: set[tirx.Var] = set()
        self._bound: list[tuple[tirx.Var, tirx.Expr]] = []
        loops: list[tirx.For] = []
        kinds = [(kind, lambda node: self._inner.add(node.var)) for kind in (tirx.Let, tirx.Bind)]
        tvm_ffi.structural_walk(loop.body, [*kinds, (tirx.For, loops.append)])
        self._inner |= {each.loop_var for each in loops}
        self._has_loops = bool(loops)

    def loop(self) -> tirx.For:
        """Return the loop with its quotients first, or as it is where there are none."""
        if not self._has_loops:
            return self._loop
        body = tvm_ffi.structural_map(self._loop.body, (_QUOTIENTS, self._once))
        if not self._bound:
            return self._loop
        binds = [tirx.Bind(var, value) for var, value in self._bound]
        loop = self._loop
        return tirx.For(
            loop.loop_var, loop.min, loop.extent, loop.kind, tirx.SeqStmt([*binds, body]), loop.thread_binding,
            loop.annotations,
        )  # fmt: skip

    def _once(self, quotient: tirx.FloorDiv | tirx.FloorMod) -> tirx.Expr:
        if isinstance(quotient.b, tirx.IntImm) or not all(map(self._signs.is_nonnegative, (quotient.a, quotient.b))):
            return quotient
        used: list[tirx.Var] = []
        tvm_ffi.structural_walk(quotient, (tvm.ir.Var, used.append))
        own = {self._loop.loop_var, *(var for var, _ in self._bound)}
        if not own & set(used) or self._inner & set(used):
            return quotient
        # Tests around it, if there are any, may be what keeps it from a division by 0.
        size = tirx.max(quotient.b, tirx.const(1, str(quotient.b.ty.dtype)))
        value = type(quotient)(quotient.a, size)
        for var, known in self._bound:
            if tvm_ffi.structural_equal(known, value):
                return var
        var = tirx.Var("place", str(value.ty.dtype))
        self._signs.add(var)
        self._bound.append((var, value))
        return var
