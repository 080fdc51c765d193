"""Slices whose bounds are computed from sizes become kernels of which every size is an expression without calls.

Where such a bound may be negative, TVM writes what it comes to with a choice that is a call, ``if_then_else``, in the
kernel's type even where the slice's own does without. It is in the size of each tensor that is computed from the slice,
then, and TVM's passes know no type of that call.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import relax, te, tirx
from tvm.sym import Analyzer, ConstIntBound

from .._tvm.nodes import is_choice
from .rewrite import variables_in

__all__ = ["SLICE", "legalized_slice"]

SLICE = "relax.strided_slice"


def legalized_slice(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return the kernel of a slice, TVM's own where all of its bounds are numbers."""
    data, *given = call.args
    bounds = [list(each.fields) for each in given if isinstance(each, relax.Tuple)]
    shape, made = data.ty.shape, call.ty.shape
    are_known = len(bounds) == len(given) and shape is not None and made is not None
    if not are_known or call.attrs.assume_inbound or not _has_formula(bounds[1:]):
        return tvm.ir.Op.get(SLICE).get_attr("FLegalize")(builder, call)
    axes, begins, _, *rest = bounds
    steps = [1] * len(shape)
    starts: list[tirx.Expr] = [tirx.IntImm("int64", 0)] * len(shape)
    for i, axis in enumerate(axes):
        steps[int(axis)] = int(rest[0][i]) if rest else 1
        starts[int(axis)] = _start(begins[i], steps[int(axis)], shape[int(axis)])

    def kernel(tensor: te.Tensor, first: Sequence[tirx.Expr], sizes: Sequence[tirx.Expr]) -> te.Tensor:
        def element(*index: tirx.Expr) -> tirx.Expr:
            return tensor(*(i * step + start for i, step, start in zip(index, steps, first, strict=True)))

        return te.compute(list(sizes), element, name="T_strided_slice", tag="injective")

    return builder.call_te(kernel, data, starts, [_size(each) for each in made], primfunc_name_hint="strided_slice")


def _has_formula(bounds: Sequence[Sequence[tirx.Expr]]) -> bool:
    return any(not isinstance(each, tirx.IntImm) for some in bounds for each in some)


def _start(begin: tirx.Expr, step: int, size: tirx.Expr) -> tirx.Expr:
    """Return where a slice begins, for which a negative bound counts from the end and any is clipped to the tensor."""
    least, most = (0, size) if step > 0 else (-1, size - 1)
    is_counted = isinstance(begin, tirx.IntImm) and int(begin) >= 0
    counted = begin if is_counted else tirx.Select(begin < 0, begin + size, begin)
    return Analyzer().simplify(tirx.max(tirx.min(counted, most), least))


def _size(size: tirx.Expr) -> tirx.Expr:
    """Return a size as Relax says it, its choices no calls; 0 where its formula may fall below that."""
    size = tvm_ffi.structural_map(size, (tvm.ir.Call, lambda e: tirx.Select(*e.args) if is_choice(e) else e))
    analyzer = Analyzer()
    for var in {*variables_in(size)}:
        analyzer.update(var, ConstIntBound(0, ConstIntBound.POS_INF))
    return size if analyzer.can_prove(size >= 0) else tirx.max(size, 0)
