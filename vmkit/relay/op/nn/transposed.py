"""Transposed convolutions over one, two and three spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node
from ..registry import OpPattern, operator
from .geometry import Geometry, agreed_kernel, weight_type
from .layout import SPATIAL
from .precision import accumulator, as_dtype
from .window import extent, window_builder

if TYPE_CHECKING:
    from ...lower.context import LowerContext

__all__: list[str] = []


@attrs_node("relay.attrs.Conv1DTransposeAttrs")
class Conv1DTransposeAttrs(Attrs):
    """Attributes of nn.conv1d_transpose."""

    channels: Dim | None = None
    kernel_size: Dims | None = None
    strides: Ints = (1,)
    output_padding: Ints = (0,)
    padding: Ints = (0,)
    dilation: Ints = (1,)
    groups: Int = 1
    data_layout: Str = "NCW"
    kernel_layout: Str = "IOW"
    out_layout: Str = ""
    out_dtype: DType = ""


@attrs_node("relay.attrs.Conv2DTransposeAttrs")
class Conv2DTransposeAttrs(Attrs):
    """Attributes of nn.conv2d_transpose."""

    channels: Dim | None = None
    kernel_size: Dims | None = None
    strides: Ints = (1, 1)
    output_padding: Ints = (0, 0)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: Int = 1
    data_layout: Str = "NCHW"
    kernel_layout: Str = "IOHW"
    out_layout: Str = ""
    out_dtype: DType = ""


@attrs_node("relay.attrs.Conv3DTransposeAttrs")
class Conv3DTransposeAttrs(Attrs):
    """Attributes of nn.conv3d_transpose."""

    channels: Dim | None = None
    kernel_size: Dims | None = None
    strides: Ints = (1, 1, 1)
    output_padding: Ints = (0, 0, 0)
    padding: Ints = (0, 0, 0)
    dilation: Ints = (1, 1, 1)
    groups: Int = 1
    data_layout: Str = "NCDHW"
    kernel_layout: Str = "IODHW"
    out_layout: Str = ""
    out_dtype: DType = ""


@dataclass(frozen=True)
class Transposed(Geometry):
    """The geometry of a transposed convolution, whose weight is (input channels, output channels of a group, ...)."""

    output_padding: list[int]

    @classmethod
    def read(cls, attrs: Any, rank: int) -> Transposed:
        """Read the attributes; TypeCheckError where they make no sense."""
        extra = [int(p) for p in attrs.output_padding]
        extra = extra * rank if len(extra) == 1 else extra
        if len(extra) != rank and not (len(extra) == 2 * rank and extra[:rank] == extra[rank:]):
            raise TypeCheckError(f"output_padding must have {rank} values, not {len(extra)}: {extra}")
        extra = extra[:rank]
        if any(e < 0 for e in extra):
            raise TypeCheckError(f"output_padding must not be negative: {extra}")
        return cls.of(attrs, rank, "IO", output_padding=extra)

    def result_sizes(self, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> list[Dim]:
        """Return the spatial sizes of the result: ``(size - 1) * stride + window - padding + output_padding``."""
        rank, result = len(self.spatial), []
        for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
            reach = dims.add(extent(k, self.dilation[i]), self.output_padding[i] - self.strides[i])
            rest = dims.sub(reach, self.padding[i] + self.padding[rank + i])
            total = dims.add(dims.mul(size, self.strides[i]), rest)
            if isinstance(total, int) and total < 0 < size:
                raise TypeCheckError(f"padding {self.padding} cuts off more than the whole result of an axis of {size}")
            result.append(max(total, 0) if isinstance(total, int) else total)
        return result

    def empty_below(self, kernel: Sequence[int]) -> list[int]:
        """Return for each axis the least size whose result is not negative."""
        rank = len(self.spatial)
        least = []
        for i, k in enumerate(kernel):
            rest = extent(k, self.dilation[i]) + self.output_padding[i] - self.strides[i]
            rest -= self.padding[i] + self.padding[rank + i]
            least.append(max(-(rest // self.strides[i]), 0))
        return least


def _weight_type(attrs: Any, rank: int, data: Type) -> dict[int, Type]:
    def channels(inputs: Dim) -> tuple[Dim, Dim]:
        return inputs, dims.floordiv(attrs.channels, attrs.groups)

    return weight_type(Transposed.read(attrs, rank), attrs, data, channels)


def _type(attrs: Any, rank: int, data: Type, weight: Type) -> Type:
    geometry = Transposed.read(attrs, rank)
    source, shapes = geometry.require(data, weight)
    kernel, channels = agreed_kernel(attrs.kernel_size, shapes.kernel), shapes.channels
    if dims.equal(channels, shapes.first) is False:
        raise TypeCheckError(f"the data has {channels} channels, but the weight takes {shapes.first}")
    if isinstance(channels, int) and channels % geometry.groups:
        raise TypeCheckError(f"groups is {geometry.groups}, which does not divide the {channels} channels of the data")
    made = dims.mul(shapes.second, geometry.groups)
    if attrs.channels is not None:
        if dims.equal(made, attrs.channels) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {made}")
        made = attrs.channels
    result = geometry.result(shapes.batch, made, geometry.result_sizes(shapes.sizes, kernel))
    return TensorType(geometry.out.shape(result), attrs.out_dtype or source.dtype)


def _lower(context: LowerContext, attrs: Any, rank: int, data: relax.Expr, weight: relax.Expr) -> relax.Expr:
    geometry = Transposed.read(attrs, rank)
    shapes = geometry.require_at_run_time(context, context.shape(data), context.shape(weight))
    name, made = context.current.name, dims.mul(shapes.second, geometry.groups)
    context.require_equal(
        shapes.channels, shapes.first, f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}"
    )
    if geometry.groups > 1 and not isinstance(shapes.channels, int):
        context.require(
            tirx.floormod(dims.as_expr(shapes.channels), geometry.groups) == 0,
            f"{name}: groups is {geometry.groups}, which does not divide the channels of the data",
        )
    if isinstance(attrs.channels, int):
        message = f"{name}: channels is {{expected}}, but the weight makes {{actual}}"
        context.require_equal(made, attrs.channels, message)
    for have, wanted in zip(shapes.kernel, attrs.kernel_size or shapes.kernel, strict=True):
        if isinstance(wanted, int):
            message = f"{name}: kernel_size has {{expected}} where the weight's kernel has {{actual}}"
            context.require_equal(have, wanted, message)
    if all(isinstance(k, int) for k in shapes.kernel):
        for axis, (size, least) in enumerate(zip(shapes.sizes, geometry.empty_below(shapes.kernel), strict=True)):
            if least > 0 and not isinstance(size, int):
                context.require(
                    size >= least, f"{name}: spatial axis {axis} is shorter than {least}, so the result has no size"
                )
    geometry.out.require_divides(context, geometry.result(shapes.batch, made, shapes.sizes), name)
    return context.te(lambda x, w: _spread(geometry, x, w, attrs.out_dtype or str(x.dtype)), data, weight)


def _spread(geometry: Transposed, data: te.Tensor, weight: te.Tensor, out_dtype: str) -> te.Tensor:
    """Return the transposed convolution: a plain one with the kernel turned round, over the data spread by strides."""
    shapes = geometry.shapes(*([dims.simplify(d) for d in t.shape] for t in (data, weight)))
    outputs, kernel = shapes.second, shapes.kernel
    result = geometry.result_sizes(shapes.sizes, kernel)
    windows = geometry.windows(kernel)
    before = [dims.sub(dims.sub(w, 1), p) for w, p in zip(windows, geometry.padding, strict=False)]

    def spread(*index: tirx.PrimExpr) -> tirx.PrimExpr:
        at, tests = geometry.data.position(index), []
        for i, letter in enumerate(geometry.spatial):
            position, stride = at[letter] - before[i], geometry.strides[i]
            source = tirx.floordiv(position, stride) if stride > 1 else position
            tests += [position >= 0, source < dims.as_expr(shapes.sizes[i])]
            if stride > 1:
                tests.append(tirx.floormod(position, stride) == 0)
            at[letter] = source
        return tirx.if_then_else(tirx.all(*tests), data(*geometry.data.index(at)), tirx.const(0, data.dtype))

    whole = [dims.sub(dims.add(r, w), 1) for r, w in zip(result, windows, strict=True)]
    reach = geometry.data.shape(geometry.result(shapes.batch, shapes.channels, whole))
    stage = te.compute([dims.as_expr(d) for d in reach], spread, name="pad_temp")
    group_inputs = dims.floordiv(shapes.channels, geometry.groups)
    reduced = {"C": te.reduce_axis((0, dims.as_expr(group_inputs)), name="rc")}
    for letter, size in zip(geometry.spatial, kernel, strict=True):
        reduced[letter] = te.reduce_axis((0, size), name=f"r{letter.lower()}")
    sums = accumulator(out_dtype)

    def element(*index: tirx.PrimExpr) -> tirx.PrimExpr:
        at = geometry.out.position(index)
        of_data = {"N": at["N"], "C": reduced["C"]}
        of_kernel = {"O": at["C"], "I": reduced["C"]}
        if geometry.groups > 1:
            of_data["C"] = of_kernel["I"] = tirx.floordiv(at["C"], outputs) * group_inputs + reduced["C"]
            of_kernel["O"] = tirx.floormod(at["C"], outputs)
        for letter, size, step in zip(geometry.spatial, kernel, geometry.dilation, strict=True):
            of_data[letter] = at[letter] + reduced[letter] * step
            of_kernel[letter] = size - 1 - reduced[letter]
        x, w = stage(*geometry.data.index(of_data)), weight(*geometry.kernel.index(of_kernel))
        axes = [reduced[a] for a in geometry.data.letters if a in reduced]
        return te.sum(x.astype(sums) * w.astype(sums), axis=axes)

    shape = geometry.out.shape(geometry.result(shapes.batch, dims.mul(outputs, geometry.groups), result))
    name = f"conv{len(geometry.spatial)}d_transpose_{geometry.data.text.lower()}"
    return as_dtype(te.compute([dims.as_expr(d) for d in shape], element, name=name), out_dtype)


def _transposed(rank: int, attrs: type[Attrs], doc: str) -> None:
    """Register the transposed convolution over `rank` spatial axes."""
    name, spatial = f"nn.conv{rank}d_transpose", SPATIAL[rank]
    builder = window_builder(
        name,
        ("data", "weight"),
        rank,
        keep_padding=rank == 1,
        strides=(1,) * rank,
        padding=(0,) * rank,
        dilation=(1,) * rank,
        channels=None,
        kernel_size=None,
        groups=1,
        data_layout="NC" + spatial,
        kernel_layout="IO" + spatial,
        out_layout="",
        output_padding=(0,) * rank,
        out_dtype="",
    )
    body = {
        "__doc__": doc,
        "build": staticmethod(builder),
        "infer_inputs": staticmethod(lambda attrs, data, weight: _weight_type(attrs, rank, data)),
        "relation": staticmethod(lambda attrs, data, weight: _type(attrs, rank, data, weight)),
        "lower": staticmethod(lambda context, attrs, data, weight: _lower(context, attrs, rank, data, weight)),
    }
    register = operator(name, "data", "weight", attrs=attrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)
    register(type(f"Conv{rank}DTranspose", (), body))


_WEIGHT = " The weight is (input channels, output channels of a group, ...), in the order of kernel_layout."
_transposed(1, Conv1DTransposeAttrs, "Transposed convolution over one spatial axis." + _WEIGHT)
_transposed(2, Conv2DTransposeAttrs, "Transposed convolution over two spatial axes." + _WEIGHT)
_transposed(3, Conv3DTransposeAttrs, "Transposed convolution over three spatial axes." + _WEIGHT)
