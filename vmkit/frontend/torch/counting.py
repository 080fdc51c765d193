"""What PyTorch counts and groups: how often each number occurs, runs of equal elements, elements that are repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import tvm
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from ...relay.ir import dims
from ...relay.op.kernel import grid
from .arguments import Converter, Importing, arguments_of, cast_to, dtype_of, refused
from .effects import read_number, require_none, require_room
from .formulas import known_sizes, sizes_of
from .relay_operators import looped

if TYPE_CHECKING:
    from torch import fx

__all__ = ["COUNTING"]

_INT = "int64"
_LARGEST = (1 << 63) - 1


def _zero(dtype: str = _INT) -> tirx.Expr:
    return tirx.const(0, dtype)


def _counted_size(importer: Importing, node: fx.Node, size: tirx.Expr, number: relax.Expr) -> tirx.Expr:
    """Return the size of a node's results that a tensor holds, under the name that PyTorch gives it."""
    assert isinstance(size, tvm.ir.Var)
    read = read_number(importer, number, size.name)
    importer.symbols.note(importer.env, read)
    require_room(importer, [read], _INT, node.name)
    return read


def _occurrences(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return how often each number from 0 on occurs in a vector, or the sums of weights beside it."""
    data, weights, least = arguments_of(node)
    emit, op = importer.block_builder.emit, relax.op
    x = cast_to(importer, importer.env[data], _INT)
    dtype = dtype_of(node)

    def count(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        bounds = outputs[0]
        T.buffer_store(bounds, tirx.const(least, _INT), [0])
        T.buffer_store(bounds, _zero(), [1])
        with grid([x.shape[0]]) as (i,):
            # The number after the largest one is none.
            is_out = tirx.any(x[i] < 0, tirx.EQ(x[i], tirx.const(_LARGEST, _INT)))
            T.buffer_store(bounds, tirx.max(bounds[0], tirx.Select(is_out, _zero(), x[i] + 1)), [0])
            T.buffer_store(bounds, tirx.max(bounds[1], tirx.Select(is_out, tirx.const(1, _INT), _zero())), [1])

    bounds = looped(importer, [([2], _INT)], count, x, name="bounds")
    flag = emit(op.take(bounds, relax.const(1, _INT), axis=0))
    require_none(importer, flag, "outside", f"{node.name}: there is a number below 0, or too large to count up to")
    (size,) = sizes_of(importer, node.meta["val"].shape)
    assert size is not None
    read = _counted_size(importer, node, size, emit(op.take(bounds, relax.const(0, _INT), axis=0)))

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer, *weights: tirx.Buffer) -> None:
        out = outputs[0]
        with grid([out.shape[0]]) as (i,):
            T.buffer_store(out, _zero(dtype), [i])
        with grid([x.shape[0]]) as (i,):
            one = weights[0][i].astype(dtype) if weights else tirx.const(1, dtype)
            T.buffer_store(out, out[x[i]] + one, [x[i]])

    given = [x]
    if weights is not None:
        given.append(importer.env[weights])
        message = f"{node.name}: {{expected}} numbers are counted, and there are {{actual}} weights"
        importer.checks.emit(importer.block_builder, given[1].ty.shape[0], x.ty.shape[0], message)
    return cast("relax.Expr", looped(importer, [([read], dtype)], body, *given, name="bincount"))


def _histogram(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return how many elements are in each of so many equal intervals, by default of all that there is."""
    data, bins, first, last = arguments_of(node)
    value = importer.env[data]
    dtype, emit = str(value.ty.dtype), importer.block_builder.emit
    flat, zero = emit(relax.op.flatten(value)), _zero(dtype)

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        out, ends, flag = outputs
        T.buffer_store(flag, _zero(), [0])
        with grid([bins]) as (i,):
            T.buffer_store(out, _zero(dtype), [i])
        for at, end in enumerate((first, last)):
            T.buffer_store(ends, tirx.const(float(end), dtype), [at])
        if first == last:
            with T.If(x.shape[0] > 0), T.Then():
                for at in (0, 1):
                    T.buffer_store(ends, x[0], [at])
            with grid([x.shape[0]]) as (i,):
                T.buffer_store(ends, tirx.min(ends[0], x[i]), [0])
                T.buffer_store(ends, tirx.max(ends[1], x[i]), [1])
                with T.If(tirx.any(tirx.isnan(x[i]), tirx.isinf(x[i]))), T.Then():
                    T.buffer_store(flag, tirx.const(1, _INT), [0])
            with T.If(tirx.EQ(ends[0], ends[1])), T.Then():
                T.buffer_store(ends, ends[0] - tirx.const(1, dtype), [0])
                T.buffer_store(ends, ends[1] + tirx.const(1, dtype), [1])
        with grid([x.shape[0]]) as (i,), T.If(tirx.all(x[i] >= ends[0], x[i] <= ends[1])), T.Then():
            place = T.bind((x[i] - ends[0]) * tirx.const(bins, dtype) / (ends[1] - ends[0]))
            # Before it is a whole number: of what is none, or endless, nothing says which one it becomes.
            inside = tirx.Select(place > 0, tirx.Select(place < bins - 1, place, tirx.const(bins - 1, dtype)), zero)
            at = T.bind(inside.astype(_INT))
            T.buffer_store(out, out[at] + tirx.const(1, dtype), [at])

    results: list[Any] = [([bins], dtype), ([2], dtype), ([1], _INT)]
    made, _, flag = looped(importer, results, body, flat, name="histc")
    require_none(importer, flag, "endless", f"{node.name}: the range of the elements is not finite")
    return cast("relax.Expr", made)


def _most_frequent(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the elements that occur most often along an axis, the least of several, and where each stands last."""
    data, axis, keepdims = arguments_of(node)
    value, emit, op = importer.env[data], importer.block_builder.emit, relax.op
    rank = max(value.ty.ndim, 1)
    axis %= rank
    if value.ty.ndim == 0:
        return emit(relax.Tuple([value, relax.const(0, _INT)]))
    empty = dims.select(dims.as_expr(value.ty.shape[axis]) == 0, 1, 0)
    importer.checks.emit(importer.block_builder, empty, 0, f"{node.name}: nothing is along axis {axis}")
    order = emit(op.argsort(value, axis=axis, descending=False, dtype=_INT))
    shape = [d for at, d in enumerate(value.ty.shape) if at != axis]

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer, order: tirx.Buffer) -> None:
        best, place, run = outputs

        def at(i: list[tirx.Var], k: tirx.Expr) -> tuple[tirx.Expr, ...]:
            return (*i[:axis], k, *i[axis:])

        with grid([d for k, d in enumerate(x.shape) if k != axis]) as i:
            for kind in (0, 1):  # the length of this run, and of the longest
                T.buffer_store(run, _zero(), [kind])
            with grid([x.shape[axis]]) as (k,):
                here = T.bind(order[at(i, k)])
                before = T.bind(order[at(i, tirx.max(k - 1, 0))])
                goes_on = tirx.all(k > 0, tirx.EQ(x[at(i, here)], x[at(i, before)]))
                T.buffer_store(run, tirx.Select(goes_on, run[0] + 1, tirx.const(1, _INT)), [0])
                with T.If(run[0] > run[1]), T.Then():
                    T.buffer_store(run, run[0], [1])
                    T.buffer_store(best, x[at(i, here)], i)
            T.buffer_store(place, _zero(), i)
            with grid([x.shape[axis]]) as (k,), T.If(tirx.EQ(x[at(i, k)], best[tuple(i)])), T.Then():
                T.buffer_store(place, k, i)

    results: list[Any] = [(shape, str(value.ty.dtype)), (shape, _INT), ([2], _INT)]
    found = looped(importer, results, body, value, order, name="mode")[:2]
    kept = [emit(op.expand_dims(each, axis)) for each in found] if keepdims else list(found)
    return emit(relax.Tuple(kept))


def _runs(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the first of equal elements that follow each other, which run each element is in, and their lengths."""
    data, _, _, axis = arguments_of(node)
    value, emit, op = importer.env[data], importer.block_builder.emit, relax.op
    if axis is not None and value.ty.ndim != 1:
        raise refused(node, "finds runs of equal slices, dim; there are those of elements")
    flat = emit(op.flatten(value))
    (length,) = flat.ty.shape

    def body(outputs: list[tirx.Buffer], x: tirx.Buffer) -> None:
        number, first, lengths, count = outputs
        T.buffer_store(count, _zero(), [0])
        with grid([x.shape[0]]) as (i,):
            T.buffer_store(lengths, _zero(), [i])
            is_new = tirx.any(tirx.EQ(i, _zero()), x[i] != x[tirx.max(i - 1, 0)])
            with T.If(is_new), T.Then():
                T.buffer_store(first, i, [count[0]])
                T.buffer_store(count, count[0] + 1, [0])
            T.buffer_store(number, count[0] - 1, [i])
            T.buffer_store(lengths, lengths[count[0] - 1] + 1, [count[0] - 1])

    results: list[Any] = [([length], _INT)] * 3 + [([1], _INT)]
    number, first, lengths, count = looped(importer, results, body, flat, name="runs")
    (size,) = sizes_of(importer, node.meta["val"][0].shape)
    assert size is not None
    read = _counted_size(importer, node, size, count)

    def begin(x: te.Tensor, size: tirx.Expr) -> te.Tensor:
        return te.compute([size], lambda i: x(i), name="begin", tag="injective")

    kept = [importer.block_builder.emit_te(begin, each, read, primfunc_name_hint="begin") for each in (first, lengths)]
    found = emit(op.take(flat, kept[0], axis=0))
    has_places, has_counts = arguments_of(node)[1:3]
    none = emit(op.zeros(relax.ShapeExpr([0]), _INT))
    places = emit(op.reshape(number, value.ty.shape)) if has_places else none
    return emit(relax.Tuple([found, places, kept[1] if has_counts else none]))


def _repetitions(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return each position of a vector as many times as the vector says there."""
    counts = cast_to(importer, importer.env[arguments_of(node)[0]], _INT)
    (size,) = sizes_of(importer, node.meta["val"].shape)

    def add(outputs: list[tirx.Buffer], counts: tirx.Buffer) -> None:
        total, flag = outputs
        for each in outputs:
            T.buffer_store(each, _zero(), [0])
        with grid([counts.shape[0]]) as (i,):
            # Both are compared, not their sum, which need not be a number of 64 bits.
            is_out = tirx.any(counts[i] < 0, *(n > tirx.const(_LARGEST // 4, _INT) for n in (counts[i], total[0])))
            with T.If(is_out):
                with T.Then():
                    T.buffer_store(flag, tirx.const(1, _INT), [0])
                with T.Else():
                    T.buffer_store(total, total[0] + counts[i], [0])

    total, flag = looped(importer, [([1], _INT), ([1], _INT)], add, counts, name="added")
    require_none(importer, flag, "outside", f"{node.name}: a number of repetitions is below 0, or too large")
    if isinstance(size, tvm.ir.Var):
        read = _counted_size(importer, node, size, total)
    else:
        read = known_sizes(importer, node)[0]
        made = read_number(importer, total, f"{node.name}_size")
        importer.checks.emit(importer.block_builder, made, read, f"{node.name}: output_size is not the sum of repeats")

    def body(outputs: list[tirx.Buffer], counts: tirx.Buffer) -> None:
        out, place = outputs
        T.buffer_store(place, _zero(), [0])
        with grid([counts.shape[0]]) as (i,), grid([counts[i]]) as (_,):
            T.buffer_store(out, i, [place[0]])
            T.buffer_store(place, place[0] + 1, [0])

    dtype = dtype_of(node)
    made = looped(importer, [([read], _INT), ([1], _INT)], body, counts, name="repetitions")[0]
    return cast_to(importer, made, dtype)


COUNTING: dict[str, Converter] = {
    "bincount.default": _occurrences,
    "histc.default": _histogram,
    "mode.default": _most_frequent,
    "repeat_interleave.Tensor": _repetitions,
    "unique_consecutive.default": _runs,
}
"""The converters, by the names of PyTorch's operators."""
