"""Elements that are read or written where a tensor of positions says: kernels in place of TVM's, which trust these.

TVM's read, and write, whatever memory a position outside of the data is in. These read the nearest element instead, and
write nothing, as Relay's operators do; negative positions count from the end, but for those of ``take``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, relax, te, tirx, topi

from ..relay.op.kernel import as_index, inside, statement_of
from ..relay.op.scatter import write_at_positions, write_elements

__all__ = ["LIMITED"]

_Legalize = Callable[[relax.BlockBuilder, relax.Call], relax.Expr]


def _taken(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, indices = call.args
    mode = "clip" if call.attrs.mode == "fast" else call.attrs.mode
    return builder.call_te(topi.take, data, indices, call.attrs.axis, mode=mode, primfunc_name_hint="take")


def _gathered_elements(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    rank = len(call.args[0].ty.shape)
    axis = int(call.attrs.axis) % rank

    def kernel(data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        def element(*index: tirx.Expr) -> tirx.Expr:
            at = list(index)
            at[axis] = inside(as_index(indices(*index)), data.shape[axis], wrap=True)
            return data(*at)

        return te.compute(indices.shape, element, name="gather_elements", tag="injective")

    return builder.call_te(kernel, *call.args, primfunc_name_hint="gather_elements")


def _gathered_slices(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    batch = int(call.attrs.batch_dims)

    def kernel(data: te.Tensor, indices: te.Tensor) -> te.Tensor:
        *outer, count = indices.shape
        axes = range(batch, batch + int(count))

        def element(*index: tirx.Expr) -> tirx.Expr:
            lead, rest = index[: len(outer)], index[len(outer) :]
            at = [inside(as_index(indices(*lead, k)), data.shape[axis], wrap=True) for k, axis in enumerate(axes)]
            return data(*lead[:batch], *at, *rest)

        return te.compute([*outer, *data.shape[axes.stop :]], element, name="gather_nd", tag="injective")

    return builder.call_te(kernel, *call.args, primfunc_name_hint="gather_nd")


def _scattered_elements(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    axis, reduction = int(call.attrs.axis) % len(call.args[0].ty.shape), str(call.attrs.reduction)

    def write(out: tirx.Buffer, *given: tirx.Buffer) -> None:
        write_elements(out, *given, axis=axis, reduction=reduction)

    return builder.call_te(_written(write), *call.args, primfunc_name_hint="scatter_elements")


def _scattered_slices(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    reduction, last = str(call.attrs.reduction), len(call.args[1].ty.shape) - 1

    def write(out: tirx.Buffer, *given: tirx.Buffer) -> None:
        write_at_positions(out, *given, reduction=reduction, axis=last)

    return builder.call_te(_written(write), *call.args, primfunc_name_hint="scatter_nd")


def _written(write: Callable[..., None]) -> Callable[..., te.Tensor]:
    """Return what makes a tensor like the first one given, by loops that `write` writes."""

    def kernel(*operands: te.Tensor) -> te.Tensor:
        def written(inputs: Sequence[tirx.Buffer], outputs: Sequence[tirx.Buffer]) -> tirx.Stmt:
            return statement_of(lambda: write(outputs[0], *inputs))

        data = operands[0]
        return te.extern([data.shape], list(operands), written, dtype=[data.dtype], name="scatter")

    return kernel


def _known(legalize: _Legalize, name: str) -> _Legalize:
    """Return a rule that leaves tensors of unknown ranks to TVM, which says what it lacks."""

    def limited(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if all(getattr(each.ty, "shape", None) is not None for each in call.args):
            return legalize(builder, call)
        return ir.Op.get(name).get_attr("FLegalize")(builder, call)

    return limited


LIMITED: dict[str, _Legalize] = {
    "relax.take": _taken,
    **{
        name: _known(legalize, name)
        for name, legalize in {
            "relax.gather_elements": _gathered_elements,
            "relax.gather_nd": _gathered_slices,
            "relax.scatter_elements": _scattered_elements,
            "relax.scatter_nd": _scattered_slices,
        }.items()
    },
}
"""How operators become kernels, by their names."""
