"""Divisions by the number 0, which TVM works out while it makes the kernel and refuses: here the machine divides.

Floats give infinity or NaN, as everywhere, and integers 0, as :mod:`.guards` has it of every kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, relax, te, topi

__all__ = ["DIVIDED"]

_Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]
_Divide = Callable[[te.Tensor, te.Tensor], te.Tensor]

_DIVISIONS: dict[str, _Divide] = {
    "divide": topi.divide,
    "floor_divide": topi.floor_divide,
    "mod": topi.mod,
    "floor_mod": topi.floor_mod,
}


def _divided(name: str) -> _Legalize:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        divisor = call.args[1]
        if not isinstance(divisor, ir.GenericConst) or divisor.value.numpy().any():
            return call.op.get_attr("FLegalize")(builder, call)
        # A constant that is handed over stays an argument of the kernel; TVM's rule would write its value into it.
        return builder.call_te(_DIVISIONS[name], *call.args, primfunc_name_hint=name)

    return legalize


DIVIDED: dict[str, _Legalize] = {f"relax.{name}": _divided(name) for name in _DIVISIONS}
"""How operators become kernels, by their names."""
