"""Operators of PyTorch that are operators of Relay's: their kernels, in a module of Relax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tvm import relax, te, tirx

from ...relay.ir import dims
from ...relay.ir.types import TensorType
from ...relay.lower.context import LowerContext
from ...relay.lower.repeated_kernels import RepeatedKernels
from ...relay.op.kernel import loops
from ...relay.op.registry import entry
from .arguments import Converter, Importing, arguments_of, refused
from .formulas import known_sizes, sizes_of

if TYPE_CHECKING:
    from torch import fx

__all__ = ["OF_RELAY", "adaptive_averaged", "averaged", "looped", "lowered", "pooled", "written_in_place"]


def _context_of(importer: Importing) -> LowerContext:
    """Return where kernels of Relay's go: into the function that an importer writes."""
    context = LowerContext(RepeatedKernels(importer.block_builder), importer.checks)
    context.read_sizes = importer.read_sizes  # what was checked is not checked again
    return context


def looped(
    importer: Importing, results: Sequence[Any], body: Callable[..., None], *given: relax.Expr, name: str
) -> Any:  # noqa: ANN401 - as `loops`
    """Return tensors that loops write; see :func:`vmkit.relay.op.kernel.loops`."""
    return loops(_context_of(importer), results, body, *given, name=name)


def lowered(importer: Importing, name: str, *values: relax.Expr, **attributes: object) -> Any:  # noqa: ANN401 - as `lower`
    """Return what Relay's operator `name` gives for tensors of Relax: a tensor, or a tuple of them."""
    context, made = _context_of(importer), entry(name)
    context.current = made
    context.types = [TensorType(context.shape(each), str(each.ty.dtype)) for each in values]
    assert made.lower is not None
    return made.lower(context, made.attrs(**attributes) if made.attrs is not None else None, *values)


def written_in_place(importer: Importing, whole: relax.Expr, row: relax.Expr, place: relax.Expr) -> relax.Expr:
    """Return a buffer, which nothing else has, with a row at a place of its first axis."""
    return cast("relax.Expr", lowered(importer, "buffer.write", whole, row, place, axis=0, new_axis=True))


def _places(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return where values belong in rows that ascend."""
    rows, values, narrow, right, side, sorter = arguments_of(node)
    have, want = importer.env[rows], importer.env[values]
    if sorter is not None:
        have = importer.block_builder.emit(relax.op.gather_elements(have, importer.env[sorter], axis=-1))
    is_right = right or side == "right"
    return lowered(importer, "searchsorted", have, want, right=is_right, dtype="int32" if narrow else "int64")


def _adaptive_largest(importer: Importing, node: fx.Node, *, rank: int) -> relax.Expr:
    """Return the largest elements of so many windows; where they stand is not told."""
    if any(user.args[1] == 1 for user in node.users):
        raise refused(node, "gives where the largest elements stand, which there is no kernel for")
    made = _adaptive_pool(importer, node, "max", _sizes_of_first(importer, node)[-rank:])
    return importer.block_builder.emit(relax.Tuple([made, made]))


def adaptive_averaged(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return the means of so many windows, a number that may be computed of sizes."""
    sizes = arguments_of(node)[1]
    if all(isinstance(size, int) for size in sizes):
        return own(node)
    return _adaptive_pool(importer, node, "avg", known_sizes(importer, node)[-len(sizes) :])


def _adaptive_pool(importer: Importing, node: fx.Node, kind: str, wanted: Sequence[tirx.Expr]) -> relax.Expr:
    data, rank = importer.env[arguments_of(node)[0]], len(wanted)
    emit, batch = importer.block_builder.emit, [1] * (rank + 2 - data.ty.ndim)  # one image may stand without a batch
    x = emit(relax.op.reshape(data, relax.ShapeExpr([*batch, *data.ty.shape]))) if batch else data
    sizes, layout = [dims.simplify(size) for size in wanted], "NC" + "DHW"[3 - rank :]
    made = lowered(importer, f"nn.adaptive_{kind}_pool{rank}d", x, output_size=sizes, layout=layout)
    return emit(relax.op.squeeze(made, [0])) if batch else made


def averaged(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return means of windows, or their sums by a number that is given."""
    data, sizes, strides, padding, _, _, divisor = arguments_of(node)
    if divisor is None:
        return own(node)
    rank = 3 if "pool3d" in str(node.target) else 2
    x, shape = importer.env[data], known_sizes(importer, node)
    size, step, pad = (_each(value, rank) for value in (sizes, strides or sizes, padding))

    def kernel(x: te.Tensor, shape: Sequence[tirx.Expr]) -> te.Tensor:
        window = [te.reduce_axis((0, extent), f"k{axis}") for axis, extent in enumerate(size)]
        lead = x.ndim - rank

        def total(*at: tirx.Expr) -> tirx.Expr:
            places = [i * s - p + k for i, s, p, k in zip(at[lead:], step, pad, window, strict=True)]
            inside = [tirx.all(p >= 0, p < extent) for p, extent in zip(places, x.shape[lead:], strict=True)]
            element = tirx.if_then_else(tirx.all(*inside), x(*at[:lead], *places), tirx.const(0, x.dtype))
            return te.sum(element, axis=window)

        sums = te.compute(shape, total, name="pool_sum")
        return te.compute(shape, lambda *at: sums(*at) / tirx.const(float(divisor), x.dtype), name="pool_quotient")

    return importer.block_builder.emit_te(kernel, x, shape, primfunc_name_hint="avg_pool")


def pooled(importer: Importing, own: Callable[[fx.Node], object], node: fx.Node) -> object:
    """Return the largest elements of windows, and where each stands in its image, if that is asked for."""
    if all(user.args[1] == 0 for user in node.users):
        return own(node)
    rank = 3 if "pool3d" in str(node.target) else 2
    data, sizes, strides, padding, dilation, is_ceil = arguments_of(node)
    x, emit = importer.env[data], importer.block_builder.emit
    if x.ty.ndim != rank + 2:
        raise refused(node, f"pools a tensor of {x.ty.ndim} axes; there must be {rank + 2}, the batch among them")
    size, step, pad, dilate = (_each(value, rank) for value in (sizes, strides or sizes, padding, dilation))
    ways = {"pool_size": size, "strides": step, "dilation": dilate, "padding": [*pad, *pad], "ceil_mode": is_ceil}
    layout = "NC" + "DHW"[3 - rank :]
    largest, at = lowered(importer, "nn.contrib_max_pool_with_indices", x, layout=layout, **ways)

    def within(at: te.Tensor, sizes: Sequence[tirx.Expr]) -> te.Tensor:
        pixels = tirx.max(_count(sizes), 1)
        return te.compute(at.shape, lambda *i: tirx.floormod(at(*i), pixels), name="in_image", tag="injective")

    places = importer.block_builder.emit_te(within, at, list(x.ty.shape)[2:], primfunc_name_hint="in_image")
    return emit(relax.Tuple([largest, places]))


def _count(sizes: Sequence[tirx.Expr]) -> tirx.Expr:
    """Return how many elements there are along axes."""
    return dims.as_expr(dims.product(sizes))


def _each(value: int | Sequence[int], rank: int) -> list[int]:
    """Return a number for each axis: PyTorch takes one for all."""
    given = [value] if isinstance(value, int) else list(value)
    return given * rank if len(given) == 1 else given


def _unpooled(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return images of zeros with elements where a tensor of positions in each says."""
    data, places, _ = arguments_of(node)[:3]
    emit, op = importer.block_builder.emit, relax.op
    x, at = importer.env[data], importer.env[places]
    shape = known_sizes(importer, node)
    rank = 3 if str(node.target).startswith("aten.max_unpool3d") else 2
    *lead, own = *list(x.ty.shape)[:-rank], _count(list(x.ty.shape)[-rank:])
    zeros = emit(op.zeros(relax.ShapeExpr([*lead, _count(shape[-rank:])]), str(x.ty.dtype)))
    flat, to = (emit(op.reshape(each, relax.ShapeExpr([*lead, own]))) for each in (x, at))
    made = emit(op.scatter_elements(zeros, to, flat, axis=len(lead)))
    return emit(op.reshape(made, relax.ShapeExpr(shape)))


def _bags(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the sums, means or largest elements of a table's rows, of those that belong together."""
    table, places, starts, _, mode, _, factors, _, padding = arguments_of(node)
    emit, op = importer.block_builder.emit, relax.op
    rows, at, offsets = (importer.env[each] for each in (table, places, starts))
    dtype, count = str(rows.ty.dtype), at.ty.shape[0]
    bags, is_most = _sizes_of_first(importer, node)[0], mode == _LARGEST
    found = emit(op.take(rows, at, axis=0))
    if factors is not None:
        found = emit(op.multiply(found, emit(op.expand_dims(importer.env[factors], 1))))

    def bag_of(offsets: te.Tensor, count: tirx.Expr) -> te.Tensor:
        k = te.reduce_axis((0, offsets.shape[0]), "k")
        begun = te.compute([count], lambda i: te.sum((offsets(k) <= i).astype("int64"), axis=k), "bags_begun")
        return te.compute([count], lambda i: begun(i) - 1, "bag", tag="injective")

    def gathered(values: relax.Expr, start: float, reduction: str) -> relax.Expr:
        shape = relax.ShapeExpr([bags, *list(values.ty.shape)[1:]])
        empty = emit(op.full(shape, relax.const(start, dtype)))
        to = emit(op.broadcast_to(emit(op.expand_dims(bag, 1)), values.ty.shape))
        return emit(op.scatter_elements(empty, to, values, axis=0, reduction=reduction))

    bag = importer.block_builder.emit_te(bag_of, offsets, count, primfunc_name_hint="bag_of")
    one, zero, least = (relax.const(value, dtype) for value in (1, 0, tirx.min_value(dtype).value))
    ones = emit(op.full(relax.ShapeExpr([count, tirx.const(1, "int64")]), one))
    if padding >= 0:  # a row of the table that belongs to no bag
        counts = emit(op.expand_dims(emit(op.not_equal(at, relax.const(padding, str(at.ty.dtype)))), 1))
        ones, found = emit(op.where(counts, one, zero)), emit(op.where(counts, found, least if is_most else zero))
    members = gathered(ones, 0, "add")
    if is_most:
        most = gathered(found, tirx.min_value(dtype).value, "max")
        made = emit(op.where(emit(op.greater(members, zero)), most, zero))
    else:
        made = gathered(found, 0, "add")
        made = emit(op.divide(made, emit(op.maximum(members, one)))) if mode == _MEAN else made
    return emit(relax.Tuple([made, bag, offsets, offsets]))


def _sampled_volume(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return elements of volumes at places of a grid, whose three coordinates Relay has on the second axis."""
    data, grid, method, padding, is_aligned = arguments_of(node)
    places = importer.block_builder.emit(relax.op.permute_dims(importer.env[grid], [0, 4, 1, 2, 3]))
    ways = {"method": ("bilinear", "nearest")[method], "padding_mode": ("zeros", "border", "reflection")[padding]}
    return lowered(
        importer, "image.grid_sample", importer.env[data], places,
        layout="NCDHW", align_corners=bool(is_aligned), **ways,
    )  # fmt: skip


def _distinct(importer: Importing, node: fx.Node) -> relax.Expr:
    """Return the elements of a tensor in order, each once, which of them each element is, and how often each occurs."""
    data = importer.env[arguments_of(node)[0]]
    emit, op = importer.block_builder.emit, relax.op
    flat = emit(op.flatten(data))
    first, inverse, counts = lowered(importer, "contrib.unique_rows", emit(op.expand_dims(flat, 1)), sorted=True)
    places = emit(op.reshape(inverse, data.ty.shape))
    return emit(relax.Tuple([emit(op.take(flat, first, axis=0)), places, counts]))


def _sizes_of_first(importer: Importing, node: fx.Node) -> list[tirx.Expr]:
    """Return the sizes of the first of a node's results."""
    return [d for d in sizes_of(importer, node.meta["val"][0].shape) if d is not None]


_MEAN, _LARGEST = 1, 2  # of the modes of embedding_bag; 0 is the sum

OF_RELAY: dict[str, Converter] = {
    **{f"adaptive_max_pool{rank}d.default": partial(_adaptive_largest, rank=rank) for rank in (2, 3)},
    "max_unpool2d.default": _unpooled,
    "max_unpool3d.default": _unpooled,
    "_embedding_bag_forward_only.default": _bags,
    "_unique2.default": _distinct,
    "grid_sampler_3d.default": _sampled_volume,
    "searchsorted.Tensor": _places,
}
"""The converters, by the names of PyTorch's operators."""
