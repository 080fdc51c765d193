"""A convolution over data with channels first, as a kernel: which axes are what, and what a group of channels reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from operator import mul

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import TensorLoad
from ...kernels.builder import Size, T, integer, loop, memory
from ..blocks import SingleReduction, single_reduction
from ..expressions import is_one, known, loads_in, replaced, stride, uses
from .padded_line import padded_line_of
from .products import factors_of
from .stages import is_in

__all__ = ["ConvolutionKernel", "NearStage", "is_in_order", "kernel_of", "near_stage"]

_WINDOW = 16  # steps of a window that are written out
_GROUPS = 8  # of channels that are enough to be shared among cores

Place = Sequence[Size]


@dataclass(frozen=True)
class ConvolutionKernel:
    """A convolution: `row` is the place of the channels among the axes of the result, positions are the axes behind."""

    found: SingleReduction
    node: s_tir.SBlock
    weight: TensorLoad
    data: TensorLoad
    row: int
    of_group: int | None  # channels of the result in a group; None where there is one group
    sizes: list[tirx.Expr]
    is_flat: bool  # windows of single elements of a tensor in memory, which are read and written in the same order
    spacing: int  # of what neighbouring windows see along a line

    @property
    def positions(self) -> list[tirx.Expr]:
        return self.sizes[self.row + 1 : self.found.spatial]

    @property
    def rows(self) -> tirx.Expr:
        return self.sizes[self.row] if self.of_group is None else integer(self.of_group)

    @property
    def window(self) -> int:
        """How many steps of a window are written out: all of its last axes that are few enough."""
        made = 1
        for size in reversed(self.sizes[self.found.spatial + 1 :]):
            if made * (known(size) or _WINDOW + 1) > _WINDOW:
                break
            made *= known(size) or 1
        return made

    @property
    def line(self) -> int | None:
        """How many positions a line has; those of all lines where they are one piece."""
        return known(reduce(mul, self.positions) if self.is_flat else self.positions[-1])


@dataclass(frozen=True)
class NearStage:
    """A stage that is computed for one group of channels at a time, next to what reads it."""

    stage: s_tir.SBlock
    channel: int  # which of its axes has the channels; positions are behind it
    count: tirx.Expr  # of channels in a group

    def place(self, channel: Size, indices: Sequence[Size]) -> tirx.Expr:
        """Return where an element is: of a channel of the group, at the stage's indices."""
        at: tirx.Expr = integer(0) + channel
        for index, size in zip(indices[self.channel + 1 :], self.sizes, strict=True):
            at = at * size + index
        return at

    @property
    def sizes(self) -> list[tirx.Expr]:
        return [v.dom.extent.astype("int64") for v in self.stage.iter_vars[self.channel + 1 :]]

    def copied(self, base: Place, kernel: ConvolutionKernel, lanes: int) -> tirx.Buffer:
        """Write the loops that compute the stage for a group, in vectors of up to so many lanes; return what has it."""
        made = memory(reduce(mul, self.sizes, self.count))
        first = dict.fromkeys([v.var for v in kernel.node.iter_vars], integer(0))
        of_group = 1 if kernel.of_group is None else kernel.of_group
        channel = base[kernel.row] * of_group
        first |= dict(zip(list(first)[: kernel.row + 1], [*base[: kernel.row], channel], strict=True))
        outer = [replaced(index, first) for index in kernel.data.indices[: self.channel + 1]]
        line = padded_line_of(self.stage, lanes)
        with ExitStack() as loops:
            sizes = self.sizes if line is None else self.sizes[:-1]
            c, *spots = [loops.enter_context(loop(size)) for size in (self.count, *sizes)]

            def at(spot: Sequence[Size]) -> tuple[list[Size], dict[tirx.Var, Size]]:
                place = [*outer[:-1], outer[-1] + c, *spot]
                return place, {v.var: index for v, index in zip(self.stage.iter_vars, place, strict=True)}

            if line is None:
                place, values = at(spots)
                T.buffer_store(made, replaced(self.stage.body.value, values), [self.place(c, place)])
            else:
                place, values = at([*spots, integer(0)])
                line.emit(made, self.place(c, place), values)
        return made


def near_stage(kernel: ConvolutionKernel, stage: s_tir.SBlock) -> NearStage | None:
    """Return the stage in which the data is padded, if there are many groups, each of which reads channels of its own.

    A group of channels is so small that it is still in the nearest cache when it is read.
    """
    variables = [v.var for v in kernel.node.iter_vars]
    spatial, indices = kernel.found.spatial, list(kernel.data.indices)
    groups = known(kernel.sizes[kernel.row]) if kernel.of_group is not None else None
    if groups is None or groups // (kernel.of_group or 1) < _GROUPS or not isinstance(stage.body, tirx.BufferStore):
        return None
    channel = len(indices) - len(kernel.positions) - 1
    places = zip(stage.body.indices, [v.var for v in stage.iter_vars], strict=False)
    is_plain = len(stage.body.indices) == len(stage.iter_vars) and all(a.same_as(b) for a, b in places)
    if not is_plain or channel < 0 or stride(indices[channel], variables[spatial]) != 1:
        return None
    far = [*variables[: kernel.row + 1], variables[spatial]]
    if any(uses(index, var) for index in indices[channel + 1 :] for var in far):
        return None
    return NearStage(stage, channel, kernel.sizes[spatial])


def kernel_of(sch: s_tir.Schedule) -> ConvolutionKernel | None:
    found = single_reduction(sch)
    if found is None or found.spatial < 3:
        return None
    node, params = sch.get(found.block), list(sch.mod["main"].params)
    factors, variables = factors_of(node), [v.var for v in node.iter_vars]
    sizes = [v.dom.extent.astype("int64") for v in node.iter_vars]
    if factors is None:
        return None
    axes, sums = variables[: found.spatial], variables[found.spatial :]
    data, weight = factors if _has(factors[0], axes[-1]) else factors[::-1]
    first, *steps = weight.indices
    row = next((a for a, var in enumerate(axes) if first.same_as(var)), None)
    if row is None or row == 0 or len(sums) != found.spatial - row or len(sums) < 2:
        return None
    # The weight is read from its begin to its end, so its steps can be counted.
    is_whole = all(map(tvm_ffi.structural_equal, weight.source.ty.shape, [sizes[row], *sizes[found.spatial :]]))
    if not is_whole or not is_in(weight.source, params) or not all(map(_is_same, steps, sums)):
        return None
    if any(known(size) is None for size in sizes[found.spatial :]):
        return None
    *others, last = data.indices
    spacing, of_group = stride(last, axes[-1]), _of_group(data, axes[row], sizes[row])
    if spacing is None or spacing < 1 or any(uses(index, axes[-1]) for index in others) or of_group == 0:
        return None
    is_flat = is_in(data.source, params) and _is_flat(data, variables, sizes, row, found.spatial)
    return ConvolutionKernel(found, node, weight, data, row, of_group, sizes, is_flat, spacing)


def _is_same(index: tirx.Expr, var: tirx.Var) -> bool:
    return bool(index.same_as(var))


def _has(load: TensorLoad, var: tirx.Var) -> bool:
    return any(uses(index, var) for index in load.indices)


def _of_group(data: TensorLoad, row: tirx.Var, size: tirx.Expr) -> int | None:
    """Return how many channels of the result read the same channels of the data; None for all, 0 where unknown."""
    index = next((index for index in data.indices if uses(index, row)), None)
    if index is None:
        return None
    if stride(index, row) == 1:
        return 1
    found: list[tirx.FloorDiv] = []
    tvm_ffi.structural_walk(index, (tirx.FloorDiv, lambda d: found.append(d) if d.a.same_as(row) else None))
    counts = {known(each.b) for each in found}
    left = replaced(index, {row: tirx.IntImm("int64", 0)}) if len(counts) == 1 else None
    count, channels = counts.pop() if counts else None, known(size)
    return count if left is not None and count and channels and channels % count == 0 else 0


def _is_flat(
    data: TensorLoad, variables: Sequence[tirx.Var], sizes: Sequence[tirx.Expr], row: int, spatial: int
) -> bool:
    """Say whether windows are single elements, and positions those of the data in the same order."""
    if any(not is_one(size) for size in sizes[spatial + 1 :]):
        return False
    count = spatial - row - 1
    positions, zero = slice(row + 1, spatial), tirx.IntImm("int64", 0)
    shape, indices = list(data.source.ty.shape)[-count:], list(data.indices)[-count:]
    single = {var: zero for var in variables[spatial + 1 :]}
    return all(map(tvm_ffi.structural_equal, shape, sizes[positions])) and all(
        Analyzer().can_prove_equal(replaced(index, single), var)
        for index, var in zip(indices, variables[positions], strict=True)
    )


def is_in_order(stage: s_tir.SBlock, kernel: ConvolutionKernel) -> bool:
    """Say whether a stage reads whole positions, each at its own place, or what is the same for all of them."""
    places = [v.var for v in stage.iter_vars][kernel.row + 1 :]
    for load in loads_in(stage.body.value):
        if not any(_has(load, place) for place in places):
            continue
        shape, indices = list(load.source.ty.shape)[-len(places) :], list(load.indices)[-len(places) :]
        if len(shape) < len(places) or not all(map(_is_same, indices, places)):
            return False
        if not all(map(tvm_ffi.structural_equal, shape, kernel.positions)):
            return False
    return not any(uses(index, place) for index in _values(stage.body.value) for place in places)


def _values(value: tirx.Expr) -> list[tirx.Expr]:
    """Return what a value is without the elements that it reads, in which places stand by themselves."""
    return [tvm_ffi.structural_map(value, (TensorLoad, lambda load: tirx.const(0, str(load.ty.dtype))))]
