"""How a transposed convolution falls apart: which numbers of the kernel meet which of the data, by phase of the output.

Output ``y`` of an axis is a sum over the taps ``k`` for which ``y + padding`` is ``i * stride + k * dilation`` for an
input ``i``. With ``y = u * stride + v - crop``, all outputs of one *phase* ``v`` have the same taps, and each of these
reads the input at a fixed offset from ``u``: a phase is a plain convolution of stride 1. Several phases are one
convolution over the window that all of them reach, with zeros where a phase has no tap, and with the phases as further
channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import gcd, prod

from .._dataclasses import dataclass

__all__ = ["AxisPhases", "Part", "Plan", "TransposedAxis", "plan_phases"]

_OF_A_PART = 1.15  # how much less there must be to compute before phases become convolutions of their own
_GUESS = 32  # for a size that is not known


@dataclass(frozen=True)
class Part:
    """One plain convolution along one axis, of one phase or of all.

    Attributes
    ----------
    taps : tuple of tuple of int
        For each phase and each place of the window an index of the kernel; the kernel's size stands for a zero.
    dilation : int
        The distance of the window's places.
    before, after : int
        Zeros around the data.
    shift : int
        Where the results of ``u = 0`` stand among those of the convolution.
    """

    taps: tuple[tuple[int, ...], ...]
    dilation: int
    before: int
    after: int
    shift: int

    @property
    def window(self) -> int:
        """How many places the window has."""
        return len(self.taps[0])

    @property
    def grown(self) -> int:
        """By how much there are more results than data."""
        return self.before + self.after - (self.window - 1) * self.dilation


@dataclass(frozen=True)
class AxisPhases:
    """The phases of an axis, as one part or each by itself.

    Attributes
    ----------
    parts : tuple of Part
        One, or as many as the stride.
    crop : int
        How many results of the first phases are before the first output.
    """

    parts: tuple[Part, ...]
    crop: int

    @property
    def phases(self) -> int:
        """How many phases a part has."""
        return len(self.parts[0].taps)

    @property
    def cost(self) -> int:
        """How many numbers of the data an output of every phase is computed from, zeros of the kernel included."""
        return sum(len(part.taps) * part.window for part in self.parts)


@dataclass(frozen=True)
class TransposedAxis:
    """An axis of a transposed convolution.

    Attributes
    ----------
    kernel, stride, dilation : int
        Numbers of the convolution.
    before : int
        The padding at the beginning.
    grown : int
        The size of the output less the stride times that of the data.
    size : int or None
        That of the data, where it is known.
    """

    kernel: int
    stride: int
    dilation: int
    before: int
    grown: int
    size: int | None = None

    def spread(self) -> TransposedAxis:
        """Return an axis with the same results; for data of one position, one whose phases have one tap each."""
        window = (self.kernel - 1) * self.dilation + 1
        if self.size != 1 or window <= self.stride:
            return self
        return replace(self, stride=window, grown=self.grown + self.stride - window)

    def joined(self) -> AxisPhases:
        """Return all phases as one part, cropped so that its window is smallest."""
        return min((self._joined(crop) for crop in range(self.stride)), key=lambda phases: phases.cost)

    def apart(self) -> AxisPhases:
        """Return each phase as a part of its own."""
        return AxisPhases(tuple(self._part([phase], 0) for phase in self._offsets(0)), 0)

    def _joined(self, crop: int) -> AxisPhases:
        return AxisPhases((self._part(self._offsets(crop), crop),), crop)

    def _offsets(self, crop: int) -> list[dict[int, int]]:
        """Return for each phase the taps by the offset at which they read the data."""
        firsts = [v - crop + self.before for v in range(self.stride)]
        taps = [(k, k * self.dilation) for k in range(self.kernel)]
        return [{(t - at) // self.stride: k for k, at in taps if (t - at) % self.stride == 0} for t in firsts]

    def _part(self, phases: Sequence[dict[int, int]], crop: int) -> Part:
        offsets = sorted({offset for phase in phases for offset in phase}) or [0]
        low, high = offsets[0], offsets[-1]
        step = reduce(gcd, (offset - low for offset in offsets)) or 1
        places = range(low, high + 1, step)
        positions = -(-(self.grown + crop) // self.stride)  # how many more there are than data
        return Part(
            taps=tuple(tuple(phase.get(place, self.kernel) for place in places) for phase in phases),
            dilation=step,
            before=max(-low, 0),
            after=max(positions + high, 0),
            shift=max(low, 0),
        )


@dataclass(frozen=True)
class Plan:
    """All axes of a transposed convolution as plain ones.

    Attributes
    ----------
    sources : tuple of TransposedAxis
        The axes.
    axes : tuple of AxisPhases
        How each axis falls apart.
    """

    sources: tuple[TransposedAxis, ...]
    axes: tuple[AxisPhases, ...]

    @property
    def phases(self) -> int:
        """How many phases are channels of one convolution."""
        return prod(axis.phases for axis in self.axes)

    @property
    def convolutions(self) -> list[tuple[Part, ...]]:
        """The parts of each convolution by axis; those of the last axis change fastest."""
        return list(product(*(axis.parts for axis in self.axes)))

    def work(self, channels: int, lanes: int) -> int:
        """Return how many vectors are multiplied for a result of so many channels."""
        sizes = [_GUESS if axis.size is None else axis.size for axis in self.sources]
        total = 0
        for parts in self.convolutions:
            positions = prod(max(size + part.grown, 0) for size, part in zip(sizes, parts, strict=True))
            total += positions * prod(part.window for part in parts)
        return total * -(-channels * self.phases // lanes)


def plan_phases(axes: Sequence[TransposedAxis], channels: int, is_depthwise: bool, lanes: int) -> Plan:
    """Return how to compute a transposed convolution with so many output channels in each group.

    One convolution is best, unless zeros in its kernel are much of it. A depthwise one computes each channel from one,
    so nothing is gained by more of them.
    """
    sources = tuple(axis.spread() for axis in axes)
    if is_depthwise:
        return Plan(sources, tuple(axis.apart() for axis in sources))
    forms = [(axis.joined(), axis.apart()) if axis.stride > 1 else (axis.joined(),) for axis in sources]
    plans = [Plan(sources, chosen) for chosen in product(*forms)]
    return min(plans, key=lambda plan: plan.work(channels, lanes) * _OF_A_PART ** (len(plan.convolutions) > 1))
