"""Storage of sizes that only the run knows comes in few sizes, so that it serves runs at other sizes again.

The VM keeps memory that is given back for the next piece of as many pages, and for no other. A program that runs at
one size after another would keep memory for each of them, without end, and get new memory from the system each time.
"""

from __future__ import annotations

import tvm
from tvm import relax, tirx

from ..relay.ir import dims
from .aliases import STORAGE, is_call
from .rewrite import function_pass, on_bindings, retyped_call, with_branches

__all__ = ["round_storage"]

_ALIKE = 1 << 14
"""Bytes up to which sizes are left to the pages that the VM's pool counts in."""

_BITS = 2
"""Sizes are kept to so many binary digits behind the first: four sizes between a power of two and the next."""


def round_storage() -> tvm.transform.Pass:
    """Return the pass by which storage of unknown size is up to a quarter larger, in one of few sizes.

    The system gives memory where it is written first: what lies behind the tensors takes none.
    """
    return function_pass("RoundStorage", lambda function: _rounded(function.body))


def _rounded(body: relax.SeqExpr) -> relax.SeqExpr | None:
    def change(binding: relax.Binding) -> list[relax.Binding]:
        call = binding.value
        if not is_call(call, STORAGE):
            return [with_branches(binding, sequence)]
        (size,) = call.args[0].values
        if isinstance(size, tirx.IntImm):
            return [binding]
        args = [relax.ShapeExpr([_class_of(dims.as_expr(size))]), *list(call.args)[1:]]
        return [relax.VarBinding(binding.var, retyped_call(call, args))]

    def sequence(each: relax.SeqExpr) -> relax.SeqExpr:
        return on_bindings(each, change)

    made = sequence(body)
    return None if made.same_as(body) else made


def _class_of(size: tirx.Expr) -> tirx.Expr:
    """Return the least number that is no less than a size and has few binary digits that are not 0."""

    def number(value: int) -> tirx.IntImm:
        return tirx.IntImm("int64", value)

    zeros = tirx.Cast("int64", tirx.clz(tirx.bitwise_or(size, number(_ALIKE))))
    step = tirx.shift_left(number(1), number(63 - _BITS) - zeros)
    return size + tirx.bitwise_and(number(0) - size, step - number(1))
