"""Products of lines around a depthwise convolution as one operator: what FuseInvertedResiduals makes of layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from tvm import relax

from ...errors import TypeCheckError
from ...kernels.inverted_residual import DepthwiseShape, InvertedResidualShape, inverted_residual
from ...kernels.packed_gemm_plan import PackedGemmShape
from ...relay.ir import dims
from ...relay.ir.types import TensorType, Type
from ...relay.op.attrs import Attrs, Bool, Float, Int, Ints, Str, attrs_node
from ...relay.op.elementwise import require_tensor
from ...relay.op.nn.layout import require_rank
from ...relay.op.nn.window import fitted, padding_of, positive
from ...relay.op.registry import OpPattern, operator
from .epilogue import require_function
from .kernel_calls import call_kernel
from .packed_gemm import SHORTEST

if TYPE_CHECKING:
    from ...relay.lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.InvertedResidualAttrs")
class InvertedResidualAttrs(Attrs):
    """Attributes of nn.contrib_inverted_residual.

    lanes is how many float32 a vector has, registers how many vectors there are, passes how many times a unit works for
    a vector. strides and padding are those of the depthwise convolution, a_min and a_max what its results are raised
    and lowered to; expand_min and expand_max those of the product before it, project_min and project_max of the one
    after it; and so for the activations, which are programs of :mod:`vmkit.kernels.activation`. has_expand says whether
    there is a product before it. units is how many output channels there are. chunks is in how many parts cores share
    each image, 1 if they share images.
    """

    lanes: Int = 16
    registers: Int = 32
    passes: Int = 1
    strides: Ints = (1, 1)
    padding: Ints = (0, 0, 0, 0)
    a_min: Float | None = None
    a_max: Float | None = None
    expand_min: Float | None = None
    expand_max: Float | None = None
    project_min: Float | None = None
    project_max: Float | None = None
    activation: Str = ""
    expand_activation: Str = ""
    project_activation: Str = ""
    has_expand: Bool = False
    units: Int = 0
    chunks: Int = 1


@operator(
    "nn.contrib_inverted_residual",
    "data",
    "window",
    "bias",
    "project",
    "project_bias",
    "*more",
    attrs=InvertedResidualAttrs,
    level=10,
    pattern=OpPattern.OPAQUE,
)
class InvertedResidual:
    """``clip(clip(depthwise(clip(data @ expand + bias)) + bias) @ project + bias + residual)``, on a CPU in float32.

    data is (batch, height, width, channels) of a known height and width, window (height, width, channels), a weight of
    a product (blocks, elements of a row, output channels of a block), the last block filled up. Then come the weight
    and the bias of the product before the convolution if has_expand, whose results are the window's channels, and the
    residual, like the result, if there is one.
    """

    @staticmethod
    def relation(attrs: InvertedResidualAttrs, data: Type, *others: Type) -> Type:
        source, *rest = tensors = [require_tensor(ty, "an input") for ty in (data, *others)]
        if any(t.dtype != "float32" for t in tensors):
            raise TypeCheckError(f"all inputs must be float32, not {', '.join(t.dtype for t in tensors)}")
        for program in (attrs.activation, attrs.expand_activation, attrs.project_activation):
            require_function(program)
        more = 2 * attrs.has_expand
        if len(rest) not in (4 + more, 5 + more):
            raise TypeCheckError(f"there are {len(rest)} inputs after the data, has_expand is {attrs.has_expand}")
        require_rank(source, 4, "data")
        for tensor, rank, name in zip(rest, (3, 1, 3, 1, 3, 1)[: 4 + more], _NAMES, strict=False):
            require_rank(tensor, rank, name)
            if not all(isinstance(d, int) and d > 0 for d in tensor.shape):
                raise TypeCheckError(f"the shape of {name} must be known, and of no size 0: {tensor}")
        if not all(isinstance(d, int) for d in source.shape[1:]):
            raise TypeCheckError(f"the height, width and channels of the data must be known: {source}")
        shape = _shape(attrs, [t.shape for t in tensors])
        expected = shape.tensors(source.shape[0])
        *inputs, result = expected.items()
        for tensor, (name, sizes) in zip(tensors, inputs, strict=True):
            fits = len(tensor.shape) == len(sizes)
            if not fits or any(dims.equal(a, b) is False for a, b in zip(tensor.shape, sizes, strict=True)):
                raise TypeCheckError(f"{name} must have shape {tuple(sizes)}, not {tensor}")
        return TensorType(result[1], "float32")

    @staticmethod
    def lower(context: LowerContext, attrs: InvertedResidualAttrs, data: relax.Expr, *others: relax.Expr) -> relax.Expr:
        shapes = [context.shape(each) for each in (data, *others)]
        shape = _shape(attrs, shapes)
        expected = shape.tensors(shapes[0][0])
        if "residual" in expected:
            for a, b in zip(shapes[-1], expected["residual"], strict=True):
                message = "nn.contrib_inverted_residual: a dimension of the residual is {actual}, expected {expected}"
                context.require_equal(a, b, message)
        write = partial(inverted_residual, shape, attrs.registers, attrs.chunks)
        return call_kernel(context, write, "inverted_residual", [data, *others], expected["out"])


_NAMES = ("window", "bias", "project", "project_bias", "expand", "expand_bias")


def _shape(attrs: InvertedResidualAttrs, shapes: Sequence[Sequence[dims.Dim]]) -> InvertedResidualShape:
    """Return what a kernel computes from the shapes of its inputs; TypeCheckError if there is none for them."""
    batch, (height, width, inner) = shapes[0][0], _known(shapes[0][1:])
    down, across, channels = _known(shapes[1])
    top, left, bottom, right = padding_of(attrs.padding, 2)
    strides = positive(attrs.strides, 2, "strides")
    if not (0 <= top < down and 0 <= bottom < down and 0 <= left < across and 0 <= right < across):
        raise TypeCheckError(f"padding {list(attrs.padding)} must be less than the window, {down}x{across}")
    if attrs.lanes < 1 or attrs.passes < 1 or attrs.lanes % attrs.passes or attrs.registers < 8:
        what = f"{attrs.lanes} lanes and {attrs.passes} passes, in {attrs.registers} registers"
        raise TypeCheckError(f"there are no {what}")
    if channels % attrs.lanes:
        raise TypeCheckError(f"the window's {channels} channels are no multiple of {attrs.lanes}")
    step = strides[0], strides[1]
    window = DepthwiseShape(
        (down, across), step, (top, left, bottom, right), True, attrs.a_min, attrs.a_max, attrs.activation
    )
    fit = [int(n) for n in fitted([height, width], window.padding, window.size, strides)]
    if 0 in fit:
        raise TypeCheckError(f"an image of {height}x{width} is empty")
    if not 1 <= attrs.chunks <= max(1, fit[0] * strides[0] // down):
        raise TypeCheckError(f"{fit[0]} lines of results are not shared in {attrs.chunks} chunks")
    expand = None
    if attrs.has_expand:
        block = _block(attrs, shapes[5], channels, "expand")
        ending = (attrs.expand_min, attrs.expand_max, attrs.expand_activation)
        expand = PackedGemmShape((1, width), inner, channels, block, attrs.lanes, True, False, *ending)
    block = _block(attrs, shapes[3], attrs.units, "project")
    ending = (attrs.project_min, attrs.project_max, attrs.project_activation)
    has_residual = len(shapes) > 5 + 2 * attrs.has_expand
    least = attrs.lanes // attrs.passes if attrs.passes > 1 else None
    row = (1, fit[1])
    project = PackedGemmShape(row, channels, attrs.units, block, attrs.lanes, True, has_residual, *ending, least=least)
    return InvertedResidualShape(batch if isinstance(batch, int) else None, height, width, expand, window, project)


def _known(shape: Sequence[dims.Dim]) -> list[int]:
    return [int(d) for d in shape]


def _block(attrs: InvertedResidualAttrs, weight: Sequence[dims.Dim], units: int, name: str) -> int:
    """Return how many output channels the blocks of a weight have."""
    blocks, _, block = _known(weight)
    if block % attrs.lanes or units < 1 or units % SHORTEST or blocks != -(-units // block):
        raise TypeCheckError(f"{name} {(*weight,)} is not of {units} units, in vectors of {attrs.lanes}")
    return block
