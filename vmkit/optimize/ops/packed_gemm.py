"""A convolution of whole rows and what follows it as one operator: what UsePackedGemm makes of convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...relay.ir import Dim, dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Float, Int, Ints, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from ...relay.op.nn.window import extent, fitted, require_fits
from ...relay.op.registry import OpPattern, operator
from .epilogue import require_added, require_added_at_run_time, require_function
from .kernel_calls import call_kernel

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__ = ["SHORTEST"]

SHORTEST = 4
"""How many float32 the shortest vector has that a result may end in."""


@attrs_node("relay.attrs.PackedGemmAttrs")
class PackedGemmAttrs(Attrs):
    """Attributes of nn.contrib_packed_gemm.

    lanes is how many float32 a vector has, registers how many vectors there are; a_min and a_max are what sums are
    raised and lowered to, activation the program of :mod:`vmkit.kernels.activation` for results; units is how many
    output channels there are. Of a convolution by more than 1x1, or with strides, kernel_size, strides and dilation
    are the window; otherwise kernel_size is empty. padding is how many positions of zeros are beyond the data, at the
    top, left, bottom and right; where there are any, the data have one more line of zeros at the bottom, which is read
    in their place. is_shared asks for a kernel that calls of other sizes share.
    overlaps says that the last block of the weight is one of the last units, some of which the block before has,
    too. groups is how many parts the rows of the data have, and the units, in one order: each part of a row has a
    weight of its own, which overlaps. passes is how many times a unit works for a vector: shorter ones, where the
    result ends in such, take less time if that is more than once. joined is how many elements of a row each of
    several tensors of data has; there is one tensor if it is empty.
    """

    lanes: Int = 16
    registers: Int = 32
    has_bias: Bool = False
    a_min: Float | None = None
    a_max: Float | None = None
    activation: Str = ""
    units: Int = 0
    kernel_size: Ints = ()
    strides: Ints = (1, 1)
    dilation: Ints = (1, 1)
    padding: Ints = (0, 0, 0, 0)
    is_shared: Bool = False
    overlaps: Bool = False
    groups: Int = 1
    passes: Int = 1
    joined: Ints = ()


@operator(
    "nn.contrib_packed_gemm",
    "data",
    "weight",
    "*added",
    attrs=PackedGemmAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class PackedGemm:
    """``activation(clip(data @ weight + bias + residual))`` over the last axis of the data, on a CPU in float32.

    weight is (blocks, elements of a row, output channels of a block), the last block filled up, or overlapping the one
    before if there are as many channels; the blocks of each group follow those of the one before. Then come the other
    data, in which rows go on, if there are several, the bias (units,) if has_bias, and the residual, like the result,
    if there is one. With a window, data is (batch, height, width, channels), padded already unless padding is given,
    and a row is a window's elements by height, width and channel.
    """

    @staticmethod
    def relation(attrs: PackedGemmAttrs, data: Type, weight: Type, *added: Type) -> Type:
        source, filters, *others = tensors = [require_tensor(ty, "an input") for ty in (data, weight, *added)]
        require_rank(filters, 3, "weight")
        if any(t.dtype != "float32" for t in tensors):
            raise TypeCheckError(f"all inputs must be float32, not {', '.join(t.dtype for t in tensors)}")
        if len(attrs.padding) != 4 or any(int(d) < 0 for d in attrs.padding):
            raise TypeCheckError(f"padding is {list(attrs.padding)}, expected four numbers that are not negative")
        blocks, inner, block = filters.shape
        if attrs.lanes < 1:
            raise TypeCheckError(f"lanes is {attrs.lanes}, expected a number of float32")
        if attrs.passes < 1 or attrs.lanes % attrs.passes:
            raise TypeCheckError(f"passes is {attrs.passes}, expected a divisor of the {attrs.lanes} lanes")
        if not all(isinstance(d, int) for d in (blocks, inner, block)) or block % attrs.lanes:
            raise TypeCheckError(
                f"weight must have a known shape, its last axis a multiple of {attrs.lanes}: {filters}"
            )
        groups = attrs.groups
        if groups < 1 or attrs.units % groups or (groups > 1 and (not attrs.overlaps or attrs.kernel_size)):
            raise TypeCheckError(f"{attrs.units} units without windows are no {groups} groups of blocks that overlap")
        units = attrs.units // groups
        if blocks != groups * -(-units // block) or units < 1:
            raise TypeCheckError(f"the weight {filters} is not of {attrs.units} units")
        if attrs.units % SHORTEST and not attrs.overlaps:
            raise TypeCheckError(f"{attrs.units} units are no multiple of {SHORTEST}, and blocks do not overlap")
        if attrs.overlaps and units < block:
            raise TypeCheckError(f"blocks of {block} units cannot overlap, of which there are {units}")
        more = max(0, len(attrs.joined) - 1)
        if more and groups > 1:
            raise TypeCheckError(f"rows of {groups} groups are of one tensor, not of {more + 1}")
        _require_rows(attrs, [source, *others[:more]], filters)
        result = [*_lead(attrs, source.shape), attrs.units]
        require_function(attrs.activation)
        require_added(others[more:], attrs.has_bias, result)
        return TensorType(result, "float32")

    @staticmethod
    def lower(
        context: LowerContext, attrs: PackedGemmAttrs, data: relax.Expr, weight: relax.Expr, *added: relax.Expr
    ) -> relax.Expr:
        from ...kernels.packed_gemm import packed_gemm, shared_packed_gemm
        from ...kernels.packed_gemm_plan import PackedGemmShape, PackedGemmWindow, plan_packed_gemm, shared_plan

        have, (_, inner, block) = context.shape(data), (int(d) for d in context.shape(weight))
        name, channels = "nn.contrib_packed_gemm", inner * attrs.groups // prod(int(d) for d in attrs.kernel_size)
        more = max(0, len(attrs.joined) - 1)
        for tensor in added[:more]:
            for a, b in zip(context.shape(tensor)[:-1], have[:-1], strict=True):
                context.require_equal(a, b, f"{name}: a dimension of more data is {{actual}}, expected {{expected}}")
        if not more:
            message = f"{name}: the data has {{actual}} channels, expected {{expected}}"
            context.require_equal(have[-1], channels, message)
        lead = _lead(attrs, have)
        result = [*lead, attrs.units]
        require_added_at_run_time(context, name, added[more:], attrs.has_bias, result)
        window = None
        if attrs.kernel_size:
            require_fits(context, _size(attrs, have), attrs.padding, _reach(attrs))
            numbers = (attrs.kernel_size, attrs.strides, attrs.dilation, attrs.padding)
            sizes = (tuple(int(v) for v in each) for each in numbers)
            height, width = (d if isinstance(d, int) else None for d in have[1:3])
            window = PackedGemmWindow(height, width, channels, *sizes)  # type: ignore[arg-type]
        what = PackedGemmShape(
            lead=tuple(d if isinstance(d, int) else None for d in lead),
            inner=inner,
            outer=attrs.units,
            block=block,
            lanes=attrs.lanes,
            has_bias=attrs.has_bias,
            has_residual=len(added) > more + attrs.has_bias,
            low=attrs.a_min,
            high=attrs.a_max,
            activation=attrs.activation,
            window=window,
            overlaps=attrs.overlaps,
            pitch=None if attrs.groups == 1 else channels,
            least=attrs.lanes // attrs.passes if attrs.passes > 1 else None,
            joined=tuple(int(size) for size in attrs.joined),
        )
        is_known = what.rows is not None
        # Of windows over images of any size each row's address is in a register anyway, whatever the channels are.
        # Those of groups are shared among layers of known sizes alone.
        is_shared = attrs.is_shared and (is_known or attrs.groups == 1)
        if is_shared or (window is not None and not is_known):
            write = partial(shared_packed_gemm, what.without_sizes(), shared_plan(what, attrs.registers), is_known)
        else:
            write = partial(packed_gemm, what, plan_packed_gemm(what, attrs.registers))
        return call_kernel(context, write, "packed_gemm", [data, weight, *added], result)


def _require_rows(attrs: PackedGemmAttrs, data: Sequence[TensorType], weight: TensorType) -> None:
    """Refuse with TypeCheckError data whose rows, or windows, do not fit the weight."""
    first, inner = data[0], weight.shape[1]
    if not attrs.joined:
        window = prod(int(d) for d in attrs.kernel_size)
        row = dims.product([inner, attrs.groups])
        if not first.shape or dims.equal(dims.product([first.shape[-1], window]), row) is False:
            raise TypeCheckError(f"the last axis of {first} does not fit the weight {weight}")
        return
    sizes = [int(size) for size in attrs.joined]
    if attrs.kernel_size or attrs.is_shared or len(data) != len(sizes) or sum(sizes) != inner or min(sizes) < 1:
        raise TypeCheckError(f"{len(data)} tensors of data, of {sizes} elements, do not fit the weight {weight}")
    for tensor, size in zip(data, sizes, strict=True):
        expected = [*first.shape[:-1], size]
        is_like = len(tensor.shape) == len(expected) and isinstance(tensor.shape[-1], int)
        if not is_like or any(dims.equal(a, b) is False for a, b in zip(tensor.shape, expected, strict=True)):
            raise TypeCheckError(f"data that rows go on in must have shape {tuple(expected)}, not {tensor}")


def _lead(attrs: PackedGemmAttrs, shape: Sequence[Dim]) -> list[Dim]:
    """Return the axes of the result before its last one."""
    if not attrs.kernel_size:
        return list(shape[:-1])
    if len(shape) != 4:
        raise TypeCheckError(f"data for windows must have four axes, not {list(shape)}")
    return [shape[0], *fitted(_size(attrs, shape), attrs.padding, _reach(attrs), attrs.strides)]


def _size(attrs: PackedGemmAttrs, shape: Sequence[Dim]) -> list[Dim]:
    """Return the height and the width of data, without the line that is read in the place of padding."""
    return [dims.sub(shape[1], 1) if any(attrs.padding) else shape[1], shape[2]]


def _reach(attrs: PackedGemmAttrs) -> list[int]:
    """Return how far a window goes, down and across."""
    return [extent(int(k), int(d)) for k, d in zip(attrs.kernel_size, attrs.dilation, strict=True)]
