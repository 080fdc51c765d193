"""A window that slides over the spatial axes, as the attributes of convolutions and pools describe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from ... import relay
from ..._dataclasses import dataclass
from ...relay.ir import Dim, Expr, dims
from ...relay.op.nn.window import extent
from .context import Context
from .known import sizes
from .registry import AttributeGroup
from .run_time_axes import shape_vector

__all__ = ["LAYOUTS", "ConvolutionWindow", "Sliding", "Window", "spatial_rank"]

LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
"""The layouts of data with so many spatial dimensions."""


D = TypeVar("D", int, Dim)


def spatial_rank(ctx: Context, x: Expr) -> int:
    """Return the number of spatial dimensions of a tensor of batch, channels, spatial; ModelError if not 1 to 3."""
    rank = ctx.rank(x) - 2
    if rank not in LAYOUTS:
        ctx.fail(f"{ctx.type(x)} has {rank} spatial dimensions; 1, 2 and 3 are supported")
    return rank


@dataclass(frozen=True)
class Window(AttributeGroup):
    """The attributes of a window, as ONNX has them; what is left out is 1, or 0 for the pads, along every axis."""

    kernel_shape: Sequence[int] | None = None
    strides: Sequence[int] | None = None
    dilations: Sequence[int] | None = None
    pads: Sequence[int] | None = None
    auto_pad: str = "NOTSET"

    def steps(self, rank: int) -> list[int]:
        """Return the stride along each axis."""
        return list(self.strides or [1] * rank)

    def spread(self, rank: int) -> list[int]:
        """Return the dilation along each axis."""
        return list(self.dilations or [1] * rank)

    def margins(self, rank: int) -> list[int]:
        """Return the pads before each axis, then after each."""
        return list(self.pads or [0] * (2 * rank))

    def of_pool(self, ctx: Context, x: Expr) -> list[int]:
        """Return the window's size over the axes of a tensor; ModelError where it has none, or another rank."""
        rank = spatial_rank(ctx, x)
        if self.kernel_shape is None:
            ctx.fail("the attribute 'kernel_shape' is missing")
        if len(self.kernel_shape) != rank:
            given = list(self.kernel_shape)
            ctx.fail(f"kernel_shape {given} is for {len(given)} spatial dimensions; the input has {rank}")
        return list(self.kernel_shape)

    def of_weight(self, ctx: Context, weight: Expr) -> list[Dim]:
        """Return the spatial sizes of a kernel: those that the model gives, else those of the weight."""
        return ctx.shape(weight)[2:] if self.kernel_shape is None else list(self.kernel_shape)

    def over(self, ctx: Context, x: Expr, kernel: Sequence[D]) -> Sliding[D]:
        """Return the window of a size with what it needs along each spatial axis of a tensor."""
        steps, spread = self.steps(len(kernel)), self.spread(len(kernel))
        window = Sliding(list(kernel), steps, spread, self._padding(ctx, x, kernel, steps, spread))
        if any(dims.is_any(p) for p in window.padding):
            return replace(window, run_time_pairs=self._same_at_run_time(ctx, x, window))
        return window

    def rounds_up(self, ceil_mode: int) -> bool:
        """Say whether a pool's last window may hang over: one padded to as many windows as strides has none such."""
        return bool(ceil_mode) and not self.auto_pad.startswith("SAME")

    def _padding(
        self, ctx: Context, x: Expr, kernel: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
    ) -> list[Dim]:
        rank = len(kernel)
        if self.auto_pad in ("NOTSET", ""):
            chosen: list[Dim] = [0] * (2 * rank) if self.pads is None else list(self.pads)
            if len(chosen) != 2 * rank:
                ctx.fail(f"pads has {len(chosen)} values; {2 * rank} are needed for {rank} spatial dimensions")
            return chosen
        if self.auto_pad == "VALID":
            return [0] * (2 * rank)
        if self.auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            ctx.fail(f"auto_pad is {self.auto_pad!r}; it is NOTSET, SAME_UPPER, SAME_LOWER or VALID")
        before: list[Dim] = []
        after: list[Dim] = []
        for length, size, stride, dilation in zip(ctx.shape(x)[2:], kernel, strides, dilations, strict=True):
            reach = extent(size, dilation)
            if dims.is_any(reach):
                ctx.fail(f"auto_pad {self.auto_pad} of a kernel whose size is not known at import")
            total = _same_total(length, reach, stride)
            if dims.is_any(total):
                before.append(total)
                after.append(total)
                continue
            small = dims.floordiv(total, 2)
            large = dims.sub(total, small)
            before.append(small if self.auto_pad == "SAME_UPPER" else large)
            after.append(large if self.auto_pad == "SAME_UPPER" else small)
        return before + after

    def _same_at_run_time(self, ctx: Context, x: Expr, window: Sliding) -> Expr:
        """Return what is put before and after each axis of a tensor whose spatial sizes only the run knows."""
        rank, zero, one = len(window.kernel), ctx.constant(0, "int64"), ctx.constant(1, "int64")
        lengths = relay.strided_slice(shape_vector(ctx, x), [2], [2 + rank], [1])
        strides, reaches = ctx.constant(window.strides, "int64"), sizes(window.reaches)
        windows = relay.floor_divide(relay.add(lengths, relay.subtract(strides, one)), strides)
        last = relay.multiply(relay.subtract(windows, one), strides)
        total = relay.maximum(relay.subtract(relay.add(last, reaches), lengths), zero)
        spatial = relay.stack(self.halves_at_run_time(ctx, total), 1)
        return relay.concatenate([ctx.constant([[0, 0], [0, 0]], "int64"), spatial], 0)

    def halves_at_run_time(self, ctx: Context, total: Expr) -> list[Expr]:
        """Return what of a vector of paddings is in front, and what behind."""
        small = relay.floor_divide(total, ctx.constant(2, "int64"))
        halves = [small, relay.subtract(total, small)]
        return halves if self.auto_pad == "SAME_UPPER" else halves[::-1]


def _same_total(length: Dim, reach: Dim, stride: int) -> Dim:
    """Return what is put around an axis for as many windows as strides, the last one begun included."""
    if stride == 1 or reach == 1:
        return dims.sub(reach, 1)
    last = dims.mul(dims.sub(dims.ceildiv(length, stride), 1), stride)
    total = dims.sub(dims.add(last, reach), length)
    # A window as long as its stride or longer never lacks less than nothing; said so, sizes stay short expressions.
    return total if isinstance(reach, int) and reach >= stride else dims.maximum(total, 0)


@dataclass(frozen=True)
class ConvolutionWindow(Window):
    """The attributes of a convolution: its window, and in how many groups its channels are."""

    group: int = 1


@dataclass(frozen=True)
class Sliding(Generic[D]):
    """A window over axes: size, stride and dilation along each; the padding before each, then after each.

    Where only the run knows the padding, it is unknown, and `run_time_pairs` is the tensor of it, as ``nn.pad`` wants.
    """

    kernel: list[D]
    strides: list[int]
    dilations: list[int]
    padding: list[Dim]
    run_time_pairs: Expr | None = None

    @property
    def known_padding(self) -> list[int] | None:
        """The padding, where it depends on no size that is not known at import; else None."""
        return [int(p) for p in self.padding] if all(isinstance(p, int) for p in self.padding) else None

    @property
    def reaches(self) -> list[D]:
        """How far the window reaches along each axis, with its dilation."""
        return [extent(size, dilation) for size, dilation in zip(self.kernel, self.dilations, strict=True)]

    def unpadded(self) -> Sliding[D]:
        """Return the window over a tensor that has its padding around it."""
        return replace(self, padding=[0] * len(self.padding), run_time_pairs=None)

    def pairs(self) -> list[list[Dim]] | Expr:
        """Return the padding before and after each axis of a tensor of batch, channels, spatial."""
        if self.run_time_pairs is not None:
            return self.run_time_pairs
        axes, found = len(self.padding) // 2, list[list[Dim]]([[0, 0], [0, 0]])
        found += [[self.padding[k], self.padding[axes + k]] for k in range(axes)]
        return found
