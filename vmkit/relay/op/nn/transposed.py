"""Transposed convolutions over one, two and three spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import IncompleteType, TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import SPATIAL, ordered, require_layout, require_rank
from .precision import accumulator, as_dtype
from .window import extent, padding_of, positive, window_builder

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
class Geometry:
    """A transposed convolution's layouts and numbers, checked; see :class:`.convolution.Geometry`."""

    spatial: str
    data: str
    kernel: str
    out: str
    strides: list[int]
    dilation: list[int]
    padding: list[int]
    output_padding: list[int]
    groups: int

    @classmethod
    def of(cls, attrs: Any, rank: int) -> Geometry:
        """Read the attributes; TypeCheckError where they make no sense."""
        spatial = SPATIAL[rank]
        strides = positive(attrs.strides, rank, "strides")
        dilation = positive(attrs.dilation, rank, "dilation")
        extra = [int(p) for p in attrs.output_padding]
        extra = extra * rank if len(extra) == 1 else extra
        if len(extra) != rank and not (len(extra) == 2 * rank and extra[:rank] == extra[rank:]):
            raise TypeCheckError(f"output_padding must have {rank} values, not {len(extra)}: {extra}")
        extra = extra[:rank]
        if any(e < 0 for e in extra):
            raise TypeCheckError(f"output_padding must not be negative: {extra}")
        if attrs.groups < 1:
            raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
        return cls(
            spatial,
            require_layout(attrs.data_layout, "NC" + spatial, "data_layout"),
            require_layout(attrs.kernel_layout, "IO" + spatial, "kernel_layout"),
            require_layout(attrs.out_layout or attrs.data_layout, "NC" + spatial, "out_layout"),
            strides,
            dilation,
            padding_of(attrs.padding, rank),
            extra,
            attrs.groups,
        )

    def of_data(self, shape: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """Return batch, channels and spatial sizes of the data's shape."""
        batch, channels, *sizes = ordered(shape, self.data, "NC" + self.spatial)
        return batch, channels, sizes

    def of_kernel(self, shape: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """Return input channels, output channels of a group and spatial sizes of the weight's shape."""
        inputs, outputs, *sizes = ordered(shape, self.kernel, "IO" + self.spatial)
        return inputs, outputs, sizes

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
    if isinstance(data, IncompleteType) or attrs.channels is None or attrs.kernel_size is None:
        return {}
    geometry, source = Geometry.of(attrs, rank), require_tensor(data, "data")
    require_rank(source, rank + 2, "data")
    _, channels, _ = geometry.of_data(source.shape)
    kernel = list(attrs.kernel_size)
    if len(kernel) != rank:
        raise TypeCheckError(f"kernel_size must have {rank} values, not {len(kernel)}: {kernel}")
    shape = ordered(
        [channels, dims.floordiv(attrs.channels, attrs.groups), *kernel], "IO" + geometry.spatial, geometry.kernel
    )
    return {1: TensorType(shape, source.dtype)}


def _type(attrs: Any, rank: int, data: Type, weight: Type) -> Type:
    geometry = Geometry.of(attrs, rank)
    source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
    require_rank(source, rank + 2, "data")
    require_rank(filters, rank + 2, "weight")
    batch, channels, sizes = geometry.of_data(source.shape)
    inputs, outputs, kernel = geometry.of_kernel(filters.shape)
    if attrs.kernel_size is not None:
        wanted = list(attrs.kernel_size)
        if len(wanted) != rank or any(dims.equal(a, b) is False for a, b in zip(wanted, kernel, strict=True)):
            raise TypeCheckError(f"kernel_size is {wanted}, but the weight's kernel is {kernel}")
    if dims.equal(channels, inputs) is False:
        raise TypeCheckError(f"the data has {channels} channels, but the weight takes {inputs}")
    if isinstance(channels, int) and channels % geometry.groups:
        raise TypeCheckError(f"groups is {geometry.groups}, which does not divide the {channels} channels of the data")
    made = dims.mul(outputs, geometry.groups)
    if attrs.channels is not None:
        if dims.equal(made, attrs.channels) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {made}")
        made = attrs.channels
    shape = ordered([batch, made, *geometry.result_sizes(sizes, kernel)], "NC" + geometry.spatial, geometry.out)
    return TensorType(shape, attrs.out_dtype or source.dtype)


def _lower(context: Any, attrs: Any, data: relax.Expr, weight: relax.Expr) -> Any:
    geometry = Geometry.of(attrs, len(context.shape(data)) - 2)
    _, channels, sizes = geometry.of_data(context.shape(data))
    inputs, outputs, kernel = geometry.of_kernel(context.shape(weight))
    name = context.current.name
    context.require_equal(
        channels, inputs, f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}"
    )
    if isinstance(attrs.channels, int):
        made = dims.mul(outputs, geometry.groups)
        message = f"{name}: channels is {{expected}}, but the weight makes {{actual}}"
        context.require_equal(made, attrs.channels, message)
    if all(isinstance(k, int) for k in kernel):
        for axis, (size, least) in enumerate(zip(sizes, geometry.empty_below(kernel), strict=True)):
            if least > 0 and not isinstance(size, int):
                context.require(
                    size >= least, f"{name}: spatial axis {axis} is shorter than {least}, so the result has no size"
                )
    return context.te(lambda x, w: _spread(geometry, x, w, attrs.out_dtype or str(x.dtype)), data, weight)


def _spread(geometry: Geometry, data: te.Tensor, weight: te.Tensor, out_dtype: str) -> te.Tensor:
    """Return the transposed convolution: a plain one with the kernel turned round, over the data spread by strides."""
    batch, channels, sizes = geometry.of_data([dims.simplify(d) for d in data.shape])
    _, outputs, kernel = geometry.of_kernel([dims.simplify(d) for d in weight.shape])
    result = geometry.result_sizes(sizes, kernel)
    windows = [extent(k, d) for k, d in zip(kernel, geometry.dilation, strict=True)]
    before = [dims.sub(dims.sub(w, 1), p) for w, p in zip(windows, geometry.padding, strict=False)]

    def spread(*index: Any) -> Any:
        at, tests = dict(zip(geometry.data, index, strict=True)), []
        for i, letter in enumerate(geometry.spatial):
            position, stride = at[letter] - before[i], geometry.strides[i]
            source = tirx.floordiv(position, stride) if stride > 1 else position
            tests += [position >= 0, source < dims.as_expr(sizes[i])]
            if stride > 1:
                tests.append(tirx.floormod(position, stride) == 0)
            at[letter] = source
        return tirx.if_then_else(tirx.all(*tests), data(*[at[a] for a in geometry.data]), tirx.const(0, data.dtype))

    whole = [dims.as_expr(dims.sub(dims.add(r, w), 1)) for r, w in zip(result, windows, strict=True)]
    stage = te.compute(
        ordered([batch, channels, *whole], "NC" + geometry.spatial, geometry.data), spread, name="pad_temp"
    )
    group_inputs = dims.floordiv(channels, geometry.groups)
    reduced = {"C": te.reduce_axis((0, dims.as_expr(group_inputs)), name="rc")}
    for letter, size in zip(geometry.spatial, kernel, strict=True):
        reduced[letter] = te.reduce_axis((0, size), name=f"r{letter.lower()}")
    sums = accumulator(out_dtype)

    def element(*index: Any) -> Any:
        at = dict(zip(geometry.out, index, strict=True))
        of_data = {"N": at["N"], "C": reduced["C"]}
        of_kernel = {"O": at["C"], "I": reduced["C"]}
        if geometry.groups > 1:
            of_data["C"] = of_kernel["I"] = tirx.floordiv(at["C"], outputs) * group_inputs + reduced["C"]
            of_kernel["O"] = tirx.floormod(at["C"], outputs)
        for letter, size, step in zip(geometry.spatial, kernel, geometry.dilation, strict=True):
            of_data[letter] = at[letter] + reduced[letter] * step
            of_kernel[letter] = size - 1 - reduced[letter]
        x = stage(*[of_data[a] for a in geometry.data])
        w = weight(*[of_kernel[a] for a in geometry.kernel])
        axes = [reduced[a] for a in geometry.data if a in reduced]
        return te.sum(x.astype(sums) * w.astype(sums), axis=axes)

    shape = ordered([batch, dims.mul(outputs, geometry.groups), *result], "NC" + geometry.spatial, geometry.out)
    name = f"conv{len(geometry.spatial)}d_transpose_{geometry.data.lower()}"
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
        "lower": staticmethod(_lower),
    }
    register = operator(name, "data", "weight", attrs=attrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)
    register(type(f"Conv{rank}DTranspose", (), body))


_WEIGHT = " The weight is (input channels, output channels of a group, ...), in the order of kernel_layout."
_transposed(1, Conv1DTransposeAttrs, "Transposed convolution over one spatial axis." + _WEIGHT)
_transposed(2, Conv2DTransposeAttrs, "Transposed convolution over two spatial axes." + _WEIGHT)
_transposed(3, Conv3DTransposeAttrs, "Transposed convolution over three spatial axes." + _WEIGHT)
