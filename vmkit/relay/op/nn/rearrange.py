"""Elements moved between the spatial axes and the batch, and data spread apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, Float, Ints, Nested, attrs_node, field
from ..elementwise import require_tensor
from ..fields import REQUIRED
from ..registry import OpPattern, operator
from .subpixel import require_divides, require_divides_at_run_time

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.SpaceToBatchNDAttrs")
class SpaceToBatchNDAttrs(Attrs):
    """Attributes of nn.space_to_batch_nd."""

    block_shape: Ints = field((1, 1), script=REQUIRED, doc="Elements of a block on each spatial axis.")
    paddings: Nested = field(doc="Elements added before and behind each spatial axis.")
    pad_value: Float = field(0.0, doc="What is added.")


@attrs_node("relay.attrs.BatchToSpaceNDAttrs")
class BatchToSpaceNDAttrs(Attrs):
    """Attributes of nn.batch_to_space_nd."""

    block_shape: Ints = field((1, 1), script=REQUIRED, doc="Elements of a block on each spatial axis.")
    crops: Nested = field(doc="Elements taken away before and behind each spatial axis.")


def _blocks(
    block_shape: Sequence[int], pairs: Sequence[Sequence[int]], data: Type, name: str
) -> tuple[TensorType, list[int], list[list[int]]]:
    """Return the data's type, the blocks and the pairs, each checked."""
    source, blocks, numbers = require_tensor(data, "data"), list(block_shape), [list(p) for p in pairs]
    if len(source.shape) <= len(blocks):
        raise TypeCheckError(f"{len(blocks)} blocks need as many spatial dimensions after the batch: {source}")
    if any(b < 1 for b in blocks):
        raise TypeCheckError(f"block_shape must be positive, not {blocks}")
    if len(numbers) != len(blocks) or any(len(p) != 2 or min(p) < 0 for p in numbers):
        raise TypeCheckError(
            f"{name} must hold two numbers, none negative, for each of {len(blocks)} blocks: {numbers}"
        )
    return source, blocks, numbers


@operator("nn.space_to_batch_nd", "data", attrs=SpaceToBatchNDAttrs, level=5, pattern=OpPattern.INJECTIVE)
class SpaceToBatchND:
    """Padded spatial axes cut into blocks, whose positions become the outer part of the batch."""

    @staticmethod
    def relation(attrs: SpaceToBatchNDAttrs, data: Type) -> Type:
        source, blocks, paddings = _blocks(attrs.block_shape, attrs.paddings, data, "paddings")
        batch, *rest = source.shape
        padded = [dims.add(d, b + a) for d, (b, a) in zip(rest, paddings, strict=False)]
        for block, size in zip(blocks, padded, strict=True):
            require_divides(block, size, "padded size")
        cut = [dims.floordiv(d, b) for d, b in zip(padded, blocks, strict=True)]
        return TensorType([dims.mul(batch, reduce(mul, blocks, 1)), *cut, *rest[len(blocks) :]], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: SpaceToBatchNDAttrs, data: relax.Expr) -> relax.Expr:
        _, *rest = context.shape(data)
        for block, size, (before, after) in zip(attrs.block_shape, rest, attrs.paddings, strict=False):
            require_divides_at_run_time(context, block, dims.add(size, before + after), "padded size")
        return context.te(lambda x: _space_to_batch(attrs, x), data)


def _space_to_batch(attrs: SpaceToBatchNDAttrs, data: te.Tensor) -> te.Tensor:
    blocks, paddings = list(attrs.block_shape), [list(p) for p in attrs.paddings]
    batch, *rest = data.shape
    cut = [tirx.floordiv(d + (b + a), k) for d, (b, a), k in zip(rest, paddings, blocks, strict=False)]

    def element(n: tirx.Expr, *index: tirx.Expr) -> tirx.Expr:
        offset, at, tests = tirx.floordiv(n, batch), list(index), []
        for i in reversed(range(len(blocks))):
            at[i] = index[i] * blocks[i] + tirx.floormod(offset, blocks[i]) - paddings[i][0]
            offset = tirx.floordiv(offset, blocks[i])
            if any(paddings[i]):
                tests += [at[i] >= 0, at[i] < rest[i]]
        read = data(tirx.floormod(n, batch), *at)
        return tirx.if_then_else(tirx.all(*tests), read, tirx.const(attrs.pad_value, data.dtype)) if tests else read

    shape = [batch * reduce(mul, blocks, 1), *cut, *rest[len(blocks) :]]
    return te.compute(shape, element, name="space_to_batch_nd")


@operator("nn.batch_to_space_nd", "data", attrs=BatchToSpaceNDAttrs, level=5, pattern=OpPattern.INJECTIVE)
class BatchToSpaceND:
    """The outer part of the batch moved into blocks on the spatial axes, which are then cropped."""

    @staticmethod
    def relation(attrs: BatchToSpaceNDAttrs, data: Type) -> Type:
        source, blocks, crops = _blocks(attrs.block_shape, attrs.crops, data, "crops")
        batch, *rest = source.shape
        count = reduce(mul, blocks, 1)
        require_divides(count, batch, "batch")
        sizes = []
        for size, block, (before, after) in zip(rest, blocks, crops, strict=False):
            whole = dims.mul(size, block)
            if isinstance(whole, int) and whole < before + after:
                raise TypeCheckError(f"crops {before} and {after} take away more than the {whole} elements of an axis")
            sizes.append(dims.sub(whole, before + after))
        return TensorType([dims.floordiv(batch, count), *sizes, *rest[len(blocks) :]], source.dtype)

    @staticmethod
    def lower(context: LowerContext, attrs: BatchToSpaceNDAttrs, data: relax.Expr) -> relax.Expr:
        batch, *rest = context.shape(data)
        require_divides_at_run_time(context, reduce(mul, attrs.block_shape, 1), batch, "batch")
        for size, block, (before, after) in zip(rest, attrs.block_shape, attrs.crops, strict=False):
            if not isinstance(size, int) and before + after > 0:
                context.require(
                    dims.as_expr(dims.mul(size, block)) >= before + after,
                    f"nn.batch_to_space_nd: crops {before} and {after} take away more than an axis has",
                )
        return context.te(lambda x: _batch_to_space(attrs, x), data)


def _batch_to_space(attrs: BatchToSpaceNDAttrs, data: te.Tensor) -> te.Tensor:
    blocks, crops = list(attrs.block_shape), [list(c) for c in attrs.crops]
    batch, *rest = data.shape
    made = tirx.floordiv(batch, reduce(mul, blocks, 1))
    sizes = [d * k - (b + a) for d, k, (b, a) in zip(rest, blocks, crops, strict=False)]

    def element(n: tirx.Expr, *index: tirx.Expr) -> tirx.Expr:
        offset: Any = tirx.IntImm("int64", 0)
        at = list(index)
        for i, block in enumerate(blocks):
            position = index[i] + crops[i][0]
            offset = offset * block + tirx.floormod(position, block)
            at[i] = tirx.floordiv(position, block)
        return data(offset * made + n, *at)

    return te.compute([made, *sizes, *rest[len(blocks) :]], element, name="batch_to_space_nd")


@attrs_node("relay.attrs.DilateAttrs")
class DilateAttrs(Attrs):
    """Attributes of nn.dilate."""

    strides: Ints = field((1, 1), script=REQUIRED, doc="How far the elements come apart on each axis.")
    dilation_value: Float = field(0.0, doc="What is put between them.")


def _dilated(size: Dim, stride: int) -> Dim:
    if stride == 1 or (isinstance(size, int) and size == 0):
        return size
    spread = dims.add(dims.mul(dims.sub(size, 1), stride), 1)
    return spread if isinstance(spread, int) else dims.maximum(spread, 0)


@operator("nn.dilate", "data", attrs=DilateAttrs, level=10, pattern=OpPattern.INJECTIVE)
class Dilate:
    """The data with ``stride - 1`` elements put between any two of an axis."""

    @staticmethod
    def relation(attrs: DilateAttrs, data: Type) -> Type:
        source, strides = require_tensor(data, "data"), list(attrs.strides)
        if len(strides) != len(source.shape) or any(s < 1 for s in strides):
            raise TypeCheckError(f"strides must be positive, one for each of {len(source.shape)} dimensions: {strides}")
        return TensorType([_dilated(d, s) for d, s in zip(source.shape, strides, strict=True)], source.dtype)

    @staticmethod
    def compute(attrs: DilateAttrs, data: te.Tensor) -> te.Tensor:
        strides = list(attrs.strides)
        shape = [_dilated(dims.simplify(d), s) for d, s in zip(data.shape, strides, strict=True)]

        def element(*index: tirx.Expr) -> tirx.Expr:
            at = [tirx.floordiv(i, s) if s > 1 else i for i, s in zip(index, strides, strict=True)]
            tests = [tirx.floormod(i, s) == 0 for i, s in zip(index, strides, strict=True) if s > 1]
            value = tirx.const(attrs.dilation_value, data.dtype)
            return tirx.if_then_else(tirx.all(*tests), data(*at), value) if tests else data(*at)

        return te.compute([dims.as_expr(d) for d in shape], element, name="dilate")
