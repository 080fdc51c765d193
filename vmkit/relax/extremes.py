"""Largest and smallest elements of floats in place of TVM's kernels, which start from the largest finite number."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from ..relay.op.ordering import has_nan
from ..relay.op.reduce import EXTREMES

__all__ = ["REDUCED"]

_Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def _reduced(name: str) -> _Legalize:
    """Return the rule for a reduction, which is TVM's where nothing is infinite."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        (data,), axis = call.args, call.attrs.axis
        if data.ty.shape is None or not has_nan(str(data.ty.dtype)):
            return call.op.get_attr("FLegalize")(builder, call)
        rank = len(data.ty.shape)
        axes = list(range(rank)) if axis is None else sorted({int(each) % rank for each in axis})
        return builder.call_te(EXTREMES[name], data, axes, bool(call.attrs.keepdims), primfunc_name_hint=name)

    return legalize


REDUCED: dict[str, _Legalize] = {f"relax.{name}": _reduced(name) for name in EXTREMES}
"""How operators become kernels, by their names."""
