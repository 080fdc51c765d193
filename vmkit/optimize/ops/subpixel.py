"""Phases of a transposed convolution, computed as channels of plain ones, put where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tvm import relax, te, tirx

from ...errors import TypeCheckError
from ...relay.ir import dims
from ...relay.ir.types import Dim, TensorType, Type
from ...relay.op.attrs import Attrs, Int, Ints, Nested, attrs_node
from ...relay.op.join import require_tensors
from ...relay.op.kernel import indexed
from ...relay.op.registry import OpPattern, operator

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext, Value

__all__: list[str] = []


@attrs_node("relay.attrs.InterleaveSubpixelsAttrs")
class InterleaveSubpixelsAttrs(Attrs):
    """Attributes of nn.contrib_interleave_subpixels: one number for each spatial axis; `shifts` for each tensor, too.

    The result ``y`` of an axis is number ``(y + crop) // stride`` of phase ``(y + crop) % stride``, which stands in its
    tensor at that number plus the tensor's shift. `rest` is by how much the stride times the first tensor's size
    exceeds the result's.

    Phases of an axis that is `joined` are channels of each tensor: of every group the phases in order, each with the
    channels of the result. The others are tensors of their own, the last axis changing fastest.
    """

    strides: Ints = ()
    joined: Ints = ()
    crop: Ints = ()
    rest: Ints = ()
    shifts: Nested
    groups: Int = 1


@operator(
    "nn.contrib_interleave_subpixels", "data", attrs=InterleaveSubpixelsAttrs, level=10, pattern=OpPattern.INJECTIVE
)
class InterleaveSubpixels:
    """The phases of a transposed convolution over channels-last data, each in its place."""

    @staticmethod
    def relation(attrs: InterleaveSubpixelsAttrs, data: Type) -> Type:
        fields, rank = require_tensors(data), len(attrs.strides)
        lists = (attrs.joined, attrs.crop, attrs.rest, *attrs.shifts)
        if any(len(each) != rank for each in lists) or any(len(f.shape) != rank + 2 for f in fields):
            raise TypeCheckError(f"strides has {rank} values: all attributes need as many, and tensors 2 axes more")
        if min(*attrs.strides, int(attrs.groups)) < 1:
            raise TypeCheckError(f"strides {list(attrs.strides)} and groups {attrs.groups} must be positive")
        count = prod(_phases(attrs, is_joined=False))
        if not len(fields) == len(attrs.shifts) == count:
            raise TypeCheckError(f"{count} tensors and shifts are needed, not {len(fields)} and {len(attrs.shifts)}")
        channels, phases = fields[0].shape[-1], prod(_phases(attrs, is_joined=True)) * int(attrs.groups)
        if isinstance(channels, int) and channels % phases:
            raise TypeCheckError(f"{channels} channels are not those of {phases} phases and groups")
        for number, field in enumerate(fields):
            for axis, (size, least) in enumerate(zip(field.shape, _least(attrs, number, fields[0].shape), strict=True)):
                if isinstance(size, int) and isinstance(least, int) and size < least:
                    raise TypeCheckError(f"axis {axis} of tensor {number} has {size} elements, but {least} are read")
        return TensorType(_shape(attrs, list(fields[0].shape)), fields[0].dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: InterleaveSubpixelsAttrs, data: Value) -> relax.Expr:
        values = list(context.fields(data))
        have = context.shape(values[0])
        for axis, (size, stride, rest) in enumerate(zip(have[1:-1], attrs.strides, attrs.rest, strict=True)):
            least = -(-int(rest) // int(stride))
            if least > 0 and not isinstance(size, int):
                message = f"spatial axis {axis} is shorter than {least}, so the result has no size"
                context.require(size >= least, f"{context.operator}: {message}")
        for number, value in enumerate(values):
            sizes = context.shape(value)
            for axis, (own, read) in enumerate(zip(sizes, _least(attrs, number, have), strict=True)):
                if not dims.at_least(dims.sub(own, read), 0):
                    message = f"axis {axis} of tensor {number} has fewer elements than are read"
                    context.require(dims.as_expr(own) >= dims.as_expr(read), f"{context.operator}: {message}")
        shape = _shape(attrs, have)
        made = dims.floordiv(shape[-1], int(attrs.groups))
        return indexed(context, shape, lambda at, tensors, of: _element(attrs, of[0], at, tensors), values, [made])


def _phases(attrs: InterleaveSubpixelsAttrs, *, is_joined: bool) -> list[int]:
    """Return the strides of the axes whose phases are joined, or are not."""
    return [int(s) for s, joined in zip(attrs.strides, attrs.joined, strict=True) if bool(joined) == is_joined]


def _least(attrs: InterleaveSubpixelsAttrs, number: int, first: Sequence[Dim]) -> list[Dim]:
    """Return how many elements of each axis of a tensor are read, given the shape of the first tensor.

    Raises
    ------
    TypeCheckError
        If elements before an axis' begin are read.
    """
    batch, *sizes, channels = first
    phase, least, shifts = number, list[Dim](), attrs.shifts[number]
    for axis in reversed(range(len(sizes))):
        stride, crop, shift = (int(each[axis]) for each in (attrs.strides, attrs.crop, shifts))
        before, own = crop, 0  # of a joined axis all phases are in the tensor
        if not attrs.joined[axis]:
            phase, own = divmod(phase, stride)
            before = crop + stride - 1 - own
        if before // stride + shift < 0:
            raise TypeCheckError(f"tensor {number} is read before the begin of spatial axis {axis}")
        last = (crop - int(attrs.rest[axis]) - 1 - own) // stride + shift
        least.append(dims.add(sizes[axis], last + 1))
    return [batch, *reversed(least), channels]


def _shape(attrs: InterleaveSubpixelsAttrs, data: Sequence[Dim]) -> list[Dim]:
    batch, *sizes, channels = data
    spread = [
        dims.sub(dims.mul(size, int(stride)), int(rest))
        for size, stride, rest in zip(sizes, attrs.strides, attrs.rest, strict=True)
    ]
    return [batch, *spread, dims.floordiv(channels, prod(_phases(attrs, is_joined=True)))]


def _element(
    attrs: InterleaveSubpixelsAttrs, of_group: tirx.Expr, index: Sequence[tirx.Expr], tensors: list[te.Tensor]
) -> tirx.Expr:
    batch, *places, channel = index
    numbers, joined, apart = [], 0, 0
    for place, stride, is_joined, crop in zip(places, attrs.strides, attrs.joined, attrs.crop, strict=True):
        at, step = place + int(crop), int(stride)
        numbers.append(tirx.floordiv(at, step))
        if is_joined:
            joined = joined * step + tirx.floormod(at, step)
        else:
            apart = apart * step + tirx.floormod(at, step)
    own = prod(_phases(attrs, is_joined=True))
    if own > 1:
        group, inner = (0, channel)
        if int(attrs.groups) > 1:
            group, inner = tirx.floordiv(channel, of_group), tirx.floormod(channel, of_group)
        channel = (group * own + joined) * of_group + inner

    def read(k: int) -> tirx.Expr:
        shifted = [number + int(shift) for number, shift in zip(numbers, attrs.shifts[k], strict=True)]
        return tensors[k](batch, *shifted, channel)

    result = read(0)
    for k in range(1, len(tensors)):
        result = tirx.if_then_else(apart == k, read(k), result)
    return result
