"""Which convolutions keep their channels first, because turning data and result round costs more than it gains.

Channels last is the faster order for most convolutions, and for all that follow each other, for only what enters them
and what leaves is turned round. Few layers between tensors with channels first may be faster as they are, computed as
an implicit GEMM along the lines of their images. A model of time on a CPU decides for each part of a program that would
be turned round as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, prod
from typing import Any

from .._dataclasses import dataclass
from ..relay.ir import Call, Constant, Function, Op, RelayExpr, TensorType, Tuple, TupleGetItem, children, post_order
from ..relay.op.pointwise import is_broadcast, is_pointwise
from ..relay.transform.known_type import type_of
from ..relay.transform.layout_rules import rule_of
from ..target.processor import Processor

__all__ = ["ConvSizes", "channels_first"]

_CONVOLUTIONS = {"nn.conv1d": ("NCW", "OIW"), "nn.conv2d": ("NCHW", "OIHW"), "nn.conv3d": ("NCDHW", "OIDHW")}
# What becomes of these works in any order as fast, as do operators of single elements.
_BESIDE = ("nn.bias_add", "nn.depth_to_space")
_WORTH, _CLEARLY = 0.9, 0.75  # of the time with channels last, where turning round is much of that and where it is not
_WORTH_ALONE = 1.12  # of one over whole lines between tensors of others' order: no time of it is made too short
_USUAL = 28  # a size that is known at run time only
_READ, _READ_IF_UNKNOWN = 4, 6  # how far apart windows of a line may begin that are not gathered one by one

# Cycles.
_CALL = 2000  # of a kernel, beside what it does
_TURNED, _TURNED_FAR = 0.35, 3.0  # of an element that is put into the other order, near and of a large tensor
_PADDED, _PADDED_NEAR = 0.5, 0.25  # of an element of a padded copy, and of one of a single channel
_COPIED, _SPACED, _GATHERED = 1.0, 2.5, 1.5  # of a vector in a panel, one of every second element; of one element
_SPACED_NEAR = 0.5  # of one of every second element in whole tiles of small windows, each over a single channel
_VECTORS, _SMALL = 8, 9  # of a tile of one channel; steps of a window that are written out for it
_HALF = 0.6  # of a vector, one of at most half as many elements
_OVERHEAD = 1.2  # of a tile, by its multiplications
_APART = 1.6  # of sums over large windows by steps, which have no copy of what they share
_UNEVEN = 1.8  # of blocks of channels that are not all there
_FEW, _MUCH = 4, 1.25  # channels below which a sum with channels last takes so much longer
_WINOGRAD = 0.45  # of a sum's multiplications, those and the transforms of Winograd's tiles
_TILE = (6, 2)  # channels and vectors of a usual tile
_PACKED = 3 * _TILE[0]  # channels from which on panels are made


def channels_first(function: Function, processor: Processor) -> Collection[RelayExpr]:
    """Return the convolutions of a typed function that are faster with their channels first, as they are."""
    kept: list[RelayExpr] = []
    for part in _parts(function):
        layers = [ConvSizes.of(call) for call in part.convolutions]
        known = [layer for layer in layers if layer is not None]
        if not part.is_plain or len(known) < len(layers):
            continue
        turned = _cycles_turned(part.turned, processor)
        last = sum(layer.cycles_last(processor) for layer in known) + turned
        first = sum(layer.cycles_first(processor) for layer in known)
        is_for_turning = turned > (1 - _WORTH) * last
        worth = _WORTH if is_for_turning else _CLEARLY
        if len(known) == 1 and known[0].is_pointwise:
            worth = _WORTH_ALONE
        if first < worth * last:
            kept += part.convolutions
    return kept


@dataclass
class _Part:
    """Calls that would have one order of axes.

    Attributes
    ----------
    convolutions : list of Call
        Those that the order is for.
    turned : list of int
        How many elements the tensors have that enter the part or leave it.
    is_plain : bool
        Whether all others do the same to every element.
    """

    convolutions: list[Call]
    turned: list[int]
    is_plain: bool


def _parts(function: Function) -> list[_Part]:
    """Return the parts of a function that have convolutions."""
    everything = list(post_order(function))
    nodes = [node for node in everything if _has_layouts(node)]
    numbers = {node: number for number, node in enumerate(nodes)}
    above = list(range(len(nodes)))

    def root(number: int) -> int:
        while above[number] != number:
            above[number] = number = above[above[number]]
        return number

    for node, number in numbers.items():
        for used in children(node):
            if used in numbers:
                above[root(numbers[used])] = root(number)
    parts = {node: root(number) for node, number in numbers.items()}
    members: dict[int, list[RelayExpr]] = {}
    left: dict[int, set[RelayExpr]] = {}
    for node, at in parts.items():
        members.setdefault(at, []).append(node)
    for node in everything:
        for used in children(node):
            if used in parts and parts.get(node) != parts[used]:
                left.setdefault(parts[used], set()).add(used)
    for result in function.body.fields if isinstance(function.body, Tuple) else [function.body]:
        if result in parts:
            left.setdefault(parts[result], set()).add(result)
    return [_part(each, left.get(at, ())) for at, each in members.items() if any(map(_is_convolution, each))]


def _part(nodes: Sequence[RelayExpr], left: Collection[RelayExpr]) -> _Part:
    own = set(nodes)
    entering = {a for node in nodes for a in children(node) if a not in own and not isinstance(a, Constant | Op)}
    turned = [_elements(node) for node in [*entering, *left]]
    others = [node for node in nodes if not _is_convolution(node) and not isinstance(node, Tuple | TupleGetItem)]
    is_plain = all(is_pointwise(n) or is_broadcast(n) or (isinstance(n, Call) and n.op.name in _BESIDE) for n in others)
    return _Part([node for node in nodes if isinstance(node, Call) and _is_convolution(node)], turned, is_plain)


def _cycles_turned(sizes: Sequence[int], processor: Processor) -> float:
    """Return about how long it takes to turn tensors of some sizes round."""
    near = 2 * processor.caches.second  # the next cache is near enough: elements are read and written in vectors
    return sum(_CALL + (_TURNED if 4 * size <= near else _TURNED_FAR) * size for size in sizes)


def _has_layouts(node: RelayExpr) -> bool:
    """Say whether a node may have another order of axes than the program's, and so has what it hangs together with."""
    if isinstance(node, Tuple | TupleGetItem):
        return True
    if not (isinstance(node, Call) and isinstance(node.op, Op)):
        return False
    return node.op.name in _BESIDE or rule_of(node) is not None


def _is_convolution(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in _CONVOLUTIONS


def _elements(node: RelayExpr) -> int:
    ty = type_of(node)
    return prod(_sizes(ty.shape)) if isinstance(ty, TensorType) and len(ty.shape) > 1 else 0


def _sizes(shape: Sequence[Any]) -> list[int]:
    """Return sizes, of which the batch may be unknown, and taken for 1."""
    first, *rest = (d if isinstance(d, int) else None for d in shape)
    return [first or 1, *(_USUAL if d is None else d for d in rest)]


@dataclass(frozen=True)
class ConvSizes:
    """A convolution with a constant weight and channels first.

    Attributes
    ----------
    batch, groups : int
        Images, and groups of channels.
    inner, outer : int
        Channels of the data and of the result in a group.
    window, strides, dilation : list of int
        Of the convolution.
    data, made : list of int
        The sizes of the padded image, and of the result's.
    is_padded : bool
        Whether there is padding.
    is_known : bool
        Whether the sizes of the result's image are.
    """

    batch: int
    groups: int
    inner: int
    outer: int
    window: list[int]
    strides: list[int]
    dilation: list[int]
    data: list[int]
    made: list[int]
    is_padded: bool
    is_known: bool = True

    @classmethod
    def of(cls, call: Call) -> ConvSizes | None:
        """Return a convolution that kernels know in both orders; None of another."""
        attrs, (data, weight) = call.attrs, call.args
        layouts = (attrs.data_layout, attrs.kernel_layout)
        if layouts != _CONVOLUTIONS[call.op.name] or attrs.out_layout not in ("", attrs.data_layout):
            return None
        types = [type_of(each) for each in (data, weight, call)]
        if not isinstance(weight, Constant) or any(t.dtype != "float32" for t in types if isinstance(t, TensorType)):
            return None
        (batch, channels, *sizes), (outer, inner, *window), (_, made, *results) = (_sizes(t.shape) for t in types)
        groups, rank = int(attrs.groups), len(window)
        if channels != inner * groups or made != outer or 0 in (batch, channels, outer, *results):
            return None
        is_known = all(isinstance(d, int) for d in type_of(call).shape[2:])
        if int(attrs.strides[-1]) > _READ_IF_UNKNOWN and not is_known:
            return None
        pads = [int(p) for p in attrs.padding]
        pads = pads * 2 if len(pads) == rank else pads * (2 * rank) if len(pads) == 1 else pads
        return cls(
            batch,
            groups,
            inner,
            outer // groups,
            window,
            [int(s) for s in attrs.strides],
            [int(d) for d in attrs.dilation],
            [size + before + after for size, before, after in zip(sizes, pads, pads[rank:], strict=False)],
            results,
            any(pads),
            is_known,
        )

    @property
    def steps(self) -> int:
        """Terms of a sum."""
        return self.inner * prod(self.window)

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.inner == self.outer == 1

    @property
    def is_pointwise(self) -> bool:
        return prod(self.window) == 1 and all(s == 1 for s in self.strides) and not self.is_padded

    @property
    def positions(self) -> int:
        return self.batch * prod(self.made)

    def shares_lines(self, processor: Processor) -> bool:
        """Say whether tiles of several lines of a channel fit into the registers beside a column of its weights."""
        fits = len(self.window) == 2 and 1 < self.window[0] <= processor.vectors.registers // 2
        return fits and self.is_known and self.made[0] > 1 and self.made[1] >= _FEW and self.strides[1] <= _READ

    def cycles_last(self, processor: Processor) -> float:
        """Return about how long it takes with channels last, without turning round."""
        lanes = processor.vectors.lanes
        if self.groups > 1:
            # Vectors have the channels of one group; of a depthwise convolution, those of several.
            width = next(n for n in (2 * lanes, lanes, 4, 2, 1) if self.outer % n == 0)
            if self.outer == 1:
                width = lanes if self.groups % lanes == 0 else lanes // 2
            apart = _APART if self.outer == 1 and self.strides[-1] > 1 and self.steps > _SMALL else 1.0
            return apart * _OVERHEAD * self.positions * self.groups * self.steps * self.outer / width
        filled = self.outer if self.outer % lanes == 0 else _UNEVEN * ceil(self.outer / lanes / 2) * lanes * 2
        is_even = all(n == 1 for n in (*self.strides, *self.dilation)) and prod(self.window) > 1
        is_winograd = is_even and self.inner % lanes == 0 and self.outer % lanes == 0 and max(self.window) <= 5
        products = self.positions * self.steps * filled / lanes / 2 * (_MUCH if self.inner < _FEW else 1)
        if processor.matrix is not None:
            products /= processor.matrix.gain
        fetched = 4 * self.steps * self.outer / processor.rates.cold
        return _OVERHEAD * products * (_WINOGRAD if is_winograd else 1) + fetched

    def cycles_first(self, processor: Processor) -> float:
        """Return about how long it takes as an implicit GEMM with channels first."""
        lanes, (rows, vectors) = processor.vectors.lanes, _TILE
        line = prod(self.made) if self.is_pointwise else self.made[-1]
        width = min(lanes, 1 << (line.bit_length() - 1))
        spacing = 1 if self.is_pointwise else self.strides[-1]
        is_gathered = spacing > (_READ if self.is_known else _READ_IF_UNKNOWN) or line < 4
        columns = self.batch * (
            prod(self.made) if is_gathered else prod(self.made) // line * ceil(line / width) * width
        )
        of_vector = columns / (lanes if is_gathered else width) * self.steps * self.groups
        tiles = ceil(self.outer / rows)
        # A step of a tile loads a vector for its channels, and an element for each of them.
        products = of_vector * max(self.outer / 2, (self.outer + tiles) / 2)
        spaced = _SPACED
        if self.is_depthwise and self.shares_lines(processor):
            products = of_vector / 2
            spaced = _SPACED_NEAR * min(1.0, self.strides[0] / self.window[0])
        elif self.is_depthwise:
            products *= max(_HALF, width / lanes)
            is_whole = prod(self.made) // line * ceil(line / width) % _VECTORS == 0
            spaced = _SPACED_NEAR if is_whole and self.steps <= _SMALL else _SPACED
        is_packed = is_gathered or self.outer >= _PACKED
        copy = _COPIED if spacing == 1 else spaced * spacing / 2
        if is_gathered:
            copied = _GATHERED * columns * self.steps * self.groups
        else:
            copied = copy * of_vector * (1 if is_packed else 0 if spacing == 1 else tiles)
        weight = 4 * self.steps * self.outer * self.groups
        blocks = ceil(columns / (lanes * vectors)) if weight > processor.caches.half_of_second else 1
        fetched = weight * blocks / (processor.rates.cold if blocks == 1 else processor.rates.far)
        of_padding = 0.0 if not self.is_padded else _PADDED_NEAR if self.is_depthwise else _PADDED
        padded = of_padding * self.batch * self.inner * self.groups * prod(self.data)
        return _OVERHEAD * products + copied + fetched + padded
