"""Elements that are read or written where a tensor of positions says: kernels in place of TVM's, which trust these.

Negative positions count from the end, but for those of ``take``. One that is outside of the data all the same reads the
nearest element, as :mod:`.guards` has it of all kernels, and writes nothing: TVM's, which count elements over all axes,
would write to another row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import ir, relax, te, tirx, topi

from ..relay.ir import dims
from ..relay.op.kernel import as_index, chosen, from_either_end, statement_of, written
from ..relay.op.scatter import write_at_positions, write_elements

__all__ = ["LIMITED", "has_known_shapes", "joined_shape"]

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
            at[axis] = from_either_end(indices(*index), data.shape[axis])
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
            at = [from_either_end(indices(*lead, k), data.shape[axis]) for k, axis in enumerate(axes)]
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


def _read(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, indices = call.args

    def kernel(data: te.Tensor, positions: Sequence[te.Tensor]) -> te.Tensor:
        return topi.index_tensor(data, [_counted(t, data.shape[axis]) for axis, t in enumerate(positions)])

    return builder.call_te(kernel, data, _fields(builder, indices), primfunc_name_hint="index_tensor")


def _put(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    data, indices, values = call.args
    tensors = _fields(builder, indices)
    reduction = "add" if call.attrs.accumulate else "update"

    def write(out: tirx.Buffer, *given: tirx.Buffer) -> None:
        write_at_positions(out, *given, reduction=reduction)

    def kernel(
        data: te.Tensor, positions: Sequence[te.Tensor], values: te.Tensor, common: Sequence[tirx.Expr]
    ) -> te.Tensor:
        wide = [topi.broadcast_to(t, common) for t in positions]
        at = te.compute([len(wide), *common], lambda k, *i: chosen(k, [as_index(t(*i)) for t in wide]), name="at")
        updates = topi.broadcast_to(values, [*common, *data.shape[len(wide) :]])
        return _written(write)(data, at, updates)

    common = joined_shape([list(t.ty.shape) for t in tensors])
    return builder.call_te(kernel, data, tensors, values, common, primfunc_name_hint="index_put")


def _suppressed(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return TVM's suppression of boxes, which trusts counts of valid boxes, with counts of those that there are."""
    data, counts, *rest = call.args

    def kernel(counts: te.Tensor, boxes: tirx.Expr) -> te.Tensor:
        least, most = tirx.const(0, counts.dtype), boxes.astype(counts.dtype)
        return te.compute(counts.shape, lambda *i: tirx.max(tirx.min(counts(*i), most), least), name="counts")

    limited = builder.emit_te(kernel, counts, data.ty.shape[1], primfunc_name_hint="valid_counts")
    same = relax.Call(call.op, [data, limited, *rest], call.attrs, list(call.ty_args), call.span)
    return _by_tvm(builder, same)


def _fields(builder: relax.BlockBuilder, given: relax.Expr) -> list[relax.Expr]:
    """Return the tensors of a tuple, or the one tensor that there is in place of one."""
    if isinstance(given, relax.Tuple):
        return list(given.fields)
    if not isinstance(given.ty, relax.TupleType):
        return [given]
    return [builder.emit(relax.TupleGetItem(given, k)) for k in range(len(given.ty.fields))]


def _counted(positions: te.Tensor, extent: tirx.Expr) -> te.Tensor:
    def element(*index: tirx.Expr) -> tirx.Expr:
        return from_either_end(positions(*index), extent)

    return te.compute(positions.shape, element, name="counted", tag="injective")


def joined_shape(shapes: Sequence[Sequence[tirx.Expr]]) -> list[tirx.Expr]:
    """Return the shape to which shapes are broadcast that are known to fit."""
    rank = max(map(len, shapes))
    padded = [[tirx.IntImm("int64", 1)] * (rank - len(shape)) + [*shape] for shape in shapes]
    return [next((d for d in sizes if not dims.equal(d, 1)), sizes[0]) for sizes in zip(*padded, strict=True)]


def _written(write: Callable[..., None]) -> Callable[..., te.Tensor]:
    """Return what makes a tensor like the first one given, by loops that `write` writes."""

    def kernel(*operands: te.Tensor) -> te.Tensor:
        def statement(inputs: Sequence[tirx.Buffer], outputs: Sequence[tirx.Buffer]) -> tirx.Stmt:
            return statement_of(lambda: write(outputs[0], *inputs))

        data = operands[0]
        return written([data.shape], operands, statement, [data.dtype], "scatter")

    return kernel


def _known(legalize: _Legalize) -> _Legalize:
    """Return a rule that leaves tensors of unknown ranks to TVM, which says what it lacks."""

    def limited(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if all(has_known_shapes(each.ty) for each in call.args):
            return legalize(builder, call)
        return _by_tvm(builder, call)

    return limited


def has_known_shapes(ty: ir.Type) -> bool:
    """Say whether a type is of tensors, or tuples of them, whose shapes are known, or of anything else."""
    if isinstance(ty, relax.TupleType):
        return all(map(has_known_shapes, ty.fields))
    return not isinstance(ty, relax.TensorType) or ty.shape is not None


def _by_tvm(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    return ir.Op.get(call.op.name).get_attr("FLegalize")(builder, call)


LIMITED: dict[str, _Legalize] = {
    "relax.take": _taken,
    "relax.index_tensor": _known(_read),
    "relax.index_put": _known(_put),
    "relax.vision.non_max_suppression": _known(_suppressed),
    "relax.gather_elements": _known(_gathered_elements),
    "relax.gather_nd": _known(_gathered_slices),
    "relax.scatter_elements": _known(_scattered_elements),
    "relax.scatter_nd": _known(_scattered_slices),
}
"""How operators become kernels, by their names."""
