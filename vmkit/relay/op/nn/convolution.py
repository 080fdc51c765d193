"""Convolutions over one, two and three spatial axes, in every order of the axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te

from ....errors import TypeCheckError
from ...ir import dims
from ...ir.types import IncompleteType, TensorType, Type
from ..attrs import Attrs, Dim, Dims, DType, Int, Ints, Str, attrs_node
from ..elementwise import require_tensor
from ..registry import OpPattern, operator
from .layout import SPATIAL, ordered, require_layout, require_rank
from .precision import accumulator, as_dtype
from .window import extent, fitted, pad_spatial, padding_of, positive, require_fits, window_builder

__all__: list[str] = []


@attrs_node("relay.attrs.Conv1DAttrs")
class Conv1DAttrs(Attrs):
    """Attributes of nn.conv1d."""

    strides: Ints = (1,)
    padding: Ints = (0, 0)
    dilation: Ints = (1,)
    groups: Int = 1
    channels: Dim | None = None
    kernel_size: Dims | None = None
    data_layout: Str = "NCW"
    kernel_layout: Str = "OIW"
    out_layout: Str = ""
    out_dtype: DType = ""


@attrs_node("relay.attrs.Conv2DAttrs")
class Conv2DAttrs(Attrs):
    """Attributes of nn.conv2d."""

    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: Int = 1
    channels: Dim | None = None
    kernel_size: Dims | None = None
    data_layout: Str = "NCHW"
    kernel_layout: Str = "OIHW"
    out_layout: Str = ""
    out_dtype: DType = ""


@attrs_node("relay.attrs.Conv3DAttrs")
class Conv3DAttrs(Attrs):
    """Attributes of nn.conv3d."""

    strides: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    dilation: Ints = (1, 1, 1)
    groups: Int = 1
    channels: Dim | None = None
    kernel_size: Dims | None = None
    data_layout: Str = "NCDHW"
    kernel_layout: Str = "OIDHW"
    out_layout: Str = ""
    out_dtype: DType = ""


@dataclass(frozen=True)
class Geometry:
    """A convolution's layouts and numbers, checked.

    Attributes
    ----------
    spatial, data, kernel, out : str
        The letters of the spatial axes, and of all axes of data, weight and result in their order.
    strides, dilation, padding : list of int
        For each spatial axis; padding holds all beginnings, then all ends.
    """

    spatial: str
    data: str
    kernel: str
    out: str
    strides: list[int]
    dilation: list[int]
    padding: list[int]
    groups: int

    @classmethod
    def of(cls, attrs: Any, rank: int) -> Geometry:
        """Read the attributes; TypeCheckError where they make no sense."""
        spatial = SPATIAL[rank]
        if attrs.groups < 1:
            raise TypeCheckError(f"groups must be positive, not {attrs.groups}")
        return cls(
            spatial,
            require_layout(attrs.data_layout, "NC" + spatial, "data_layout"),
            require_layout(attrs.kernel_layout, "OI" + spatial, "kernel_layout"),
            require_layout(attrs.out_layout or attrs.data_layout, "NC" + spatial, "out_layout"),
            positive(attrs.strides, rank, "strides"),
            positive(attrs.dilation, rank, "dilation"),
            padding_of(attrs.padding, rank),
            attrs.groups,
        )

    def of_data(self, shape: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """Return batch, channels and spatial sizes of the data's shape."""
        batch, channels, *sizes = ordered(shape, self.data, "NC" + self.spatial)
        return batch, channels, sizes

    def of_kernel(self, shape: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """Return output channels, input channels of a group and spatial sizes of the weight's shape."""
        outputs, inputs, *sizes = ordered(shape, self.kernel, "OI" + self.spatial)
        return outputs, inputs, sizes

    def windows(self, kernel: Sequence[Dim]) -> list[Dim]:
        """Return how far the dilated kernel reaches on each axis."""
        return [extent(k, d) for k, d in zip(kernel, self.dilation, strict=True)]

    def is_multiplied(self, channels: Dim, outputs: Dim, inputs: Dim) -> bool:
        """Say whether the weight is (channels, multiplier, ...): Relay's other form of a depthwise convolution.

        Each channel then has `inputs` kernels of its own, and the result has ``outputs * inputs`` channels.
        """
        depthwise = dims.equal(channels, self.groups) and dims.equal(outputs, self.groups)
        return self.groups > 1 and bool(depthwise) and dims.equal(inputs, 1) is False

    def output_channels(self, channels: Dim, outputs: Dim, inputs: Dim) -> Dim:
        """Return the channels of the result."""
        return dims.mul(outputs, inputs) if self.is_multiplied(channels, outputs, inputs) else outputs


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
        [attrs.channels, dims.floordiv(channels, attrs.groups), *kernel], "OI" + geometry.spatial, geometry.kernel
    )
    return {1: TensorType(shape, source.dtype)}


def _convolution_type(attrs: Any, rank: int, data: Type, weight: Type) -> Type:
    geometry = Geometry.of(attrs, rank)
    source, filters = require_tensor(data, "data"), require_tensor(weight, "weight")
    require_rank(source, rank + 2, "data")
    require_rank(filters, rank + 2, "weight")
    batch, channels, sizes = geometry.of_data(source.shape)
    outputs, inputs, kernel = geometry.of_kernel(filters.shape)
    if attrs.kernel_size is not None:
        kernel = _agreed_kernel(list(attrs.kernel_size), kernel)
    made = _agreed_channels(attrs, geometry, channels, outputs, inputs)
    result = fitted(sizes, geometry.padding, geometry.windows(kernel), geometry.strides)
    shape = ordered([batch, made, *result], "NC" + geometry.spatial, geometry.out)
    return TensorType(shape, attrs.out_dtype or source.dtype)


def _agreed_kernel(wanted: list[Dim], kernel: list[Dim]) -> list[Dim]:
    if len(wanted) != len(kernel) or any(dims.equal(a, b) is False for a, b in zip(wanted, kernel, strict=True)):
        raise TypeCheckError(f"kernel_size is {_text(wanted)}, but the weight's kernel is {_text(kernel)}")
    return wanted


def _agreed_channels(attrs: Any, geometry: Geometry, channels: Dim, outputs: Dim, inputs: Dim) -> Dim:
    """Return the channels of the result; TypeCheckError where data, weight, groups and channels do not agree."""
    groups = geometry.groups
    made = geometry.output_channels(channels, outputs, inputs)
    if attrs.channels is not None:
        if dims.equal(made, attrs.channels) is False:
            raise TypeCheckError(f"channels is {attrs.channels}, but the weight makes {made}")
        made = attrs.channels
    for count, whose in ((channels, "the data"), (outputs, "the result")):
        if isinstance(count, int) and count % groups:
            raise TypeCheckError(f"groups is {groups}, which does not divide the {count} channels of {whose}")
    if not geometry.is_multiplied(channels, outputs, inputs):
        wanted = dims.mul(inputs, groups)
        if dims.equal(channels, wanted) is False:
            raise TypeCheckError(
                f"the data has {channels} channels, but the weight takes {inputs} in each of {groups} groups: {wanted}"
            )
    return made


def _text(values: Sequence[Any]) -> str:
    return " x ".join(str(v) for v in values)


def _lower_convolution(context: Any, attrs: Any, data: relax.Expr, weight: relax.Expr) -> Any:
    geometry = Geometry.of(attrs, len(context.shape(data)) - 2)
    _, channels, sizes = geometry.of_data(context.shape(data))
    outputs, inputs, kernel = geometry.of_kernel(context.shape(weight))
    name = context.current.name
    if not geometry.is_multiplied(channels, outputs, inputs):
        context.require_equal(
            channels,
            dims.mul(inputs, geometry.groups),
            f"{name}: the data has {{actual}} channels, but the weight takes {{expected}}",
        )
    if isinstance(attrs.channels, int):
        context.require_equal(
            geometry.output_channels(channels, outputs, inputs),
            attrs.channels,
            f"{name}: channels is {{expected}}, but the weight makes {{actual}}",
        )
    for have, wanted in zip(kernel, attrs.kernel_size or kernel, strict=True):
        if isinstance(wanted, int):
            context.require_equal(
                have, wanted, f"{name}: kernel_size has {{expected}} where the weight's kernel has {{actual}}"
            )
    require_fits(context, sizes, geometry.padding, geometry.windows(kernel))
    return context.te(lambda x, w: _convolve(geometry, x, w, attrs.out_dtype or str(x.dtype)), data, weight)


def _convolve(geometry: Geometry, data: te.Tensor, weight: te.Tensor, out_dtype: str) -> te.Tensor:
    """Return the convolution as one plain reduction over a padded stage."""
    batch, channels, sizes = geometry.of_data([dims.simplify(d) for d in data.shape])
    outputs, inputs, kernel = geometry.of_kernel([dims.simplify(d) for d in weight.shape])
    is_multiplied = geometry.is_multiplied(channels, outputs, inputs)
    padded = pad_spatial(data, geometry.data, geometry.spatial, geometry.padding, 0)
    result = fitted(sizes, geometry.padding, geometry.windows(kernel), geometry.strides)
    reduced = {"C": te.reduce_axis((0, 1 if is_multiplied else inputs), name="rc")}
    for letter, size in zip(geometry.spatial, kernel, strict=True):
        reduced[letter] = te.reduce_axis((0, size), name=f"r{letter.lower()}")
    sums, made = accumulator(out_dtype), geometry.output_channels(channels, outputs, inputs)

    def element(*index: Any) -> Any:
        at = dict(zip(geometry.out, index, strict=True))
        of_kernel = {"O": at["C"], "I": reduced["C"], **{s: reduced[s] for s in geometry.spatial}}
        of_data = {"N": at["N"], "C": reduced["C"]}
        if is_multiplied:
            of_data["C"] = at["C"] // inputs
            of_kernel |= {"O": at["C"] // inputs, "I": at["C"] % inputs}
        elif geometry.groups > 1:
            of_data["C"] = at["C"] // dims.floordiv(made, geometry.groups) * inputs + reduced["C"]
        for letter, stride, dilation in zip(geometry.spatial, geometry.strides, geometry.dilation, strict=True):
            of_data[letter] = at[letter] * stride + reduced[letter] * dilation
        x = padded(*[of_data[a] for a in geometry.data])
        w = weight(*[of_kernel[a] for a in geometry.kernel])
        # The reduction goes in the order in which the data lies in memory.
        axes = [reduced[a] for a in geometry.data if a in reduced]
        return te.sum(x.astype(sums) * w.astype(sums), axis=axes)

    shape = ordered([batch, made, *result], "NC" + geometry.spatial, geometry.out)
    name = f"conv{len(geometry.spatial)}d_{geometry.data.lower()}"
    return as_dtype(te.compute([dims.as_expr(d) for d in shape], element, name=name), out_dtype)


def _convolution(rank: int, attrs: type[Attrs], doc: str) -> None:
    """Register the convolution over `rank` spatial axes."""
    name, spatial = f"nn.conv{rank}d", SPATIAL[rank]
    builder = window_builder(
        name,
        ("data", "weight"),
        rank,
        strides=(1,) * rank,
        padding=(0,) * rank,
        dilation=(1,) * rank,
        groups=1,
        channels=None,
        kernel_size=None,
        data_layout="NC" + spatial,
        kernel_layout="OI" + spatial,
        out_layout="",
        out_dtype="",
    )
    body = {
        "__doc__": doc,
        "build": staticmethod(builder),
        "infer_inputs": staticmethod(lambda attrs, data, weight: _weight_type(attrs, rank, data)),
        "relation": staticmethod(lambda attrs, data, weight: _convolution_type(attrs, rank, data, weight)),
        "lower": staticmethod(_lower_convolution),
    }
    register = operator(name, "data", "weight", attrs=attrs, level=2, pattern=OpPattern.OUT_ELEMWISE_FUSABLE)
    register(type(f"Conv{rank}D", (), body))


_DEPTHWISE = (
    " A depthwise convolution has as many groups as channels; its weight is (channels * multiplier, 1, ...) or "
    "(channels, multiplier, ...), in the order of kernel_layout."
)
_convolution(1, Conv1DAttrs, "Convolution over one spatial axis." + _DEPTHWISE)
_convolution(2, Conv2DAttrs, "Convolution over two spatial axes." + _DEPTHWISE)
_convolution(3, Conv3DAttrs, "Convolution over three spatial axes." + _DEPTHWISE)
