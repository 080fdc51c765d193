"""A product of rows, a depthwise convolution and another product of rows as one kernel on a CPU, line by line.

The first product is several times as large as what is read and what is written. Of it as many lines are kept as a
window of the convolution is high, each in the place of one that is no longer needed, and of the convolution one line:
neither goes through memory. Without a first product the lines are those of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import prod

from tvm import tirx

from .._dataclasses import dataclass
from .activation import finished
from .builder import (
    Size,
    T,
    add_to,
    in_parallel,
    in_register,
    integer,
    kernel,
    loop,
    memory,
    ramp,
    register,
    when,
    zeros,
)
from .packed_gemm import GemmRows, GemmTile
from .packed_gemm_plan import PackedGemmPlan, PackedGemmShape, plan_packed_gemm

__all__ = ["DepthwiseShape", "InvertedResidualShape", "inverted_residual"]

_POSITIONS = 12  # of a line whose sums are in registers at most
_OTHERS = 4  # registers for the data, what they are multiplied with, and limits


@dataclass(frozen=True)
class DepthwiseShape:
    """A depthwise convolution.

    Attributes
    ----------
    size, strides : tuple of int
        Of windows, along the height and the width.
    padding : tuple of int
        Zeros at the top, left, bottom and right; at the top at most as many as a window is high.
    has_bias : bool
        Whether a number for each channel is added.
    low, high : float or None
        What sums are raised and lowered to.
    activation : str
        The program of :mod:`.activation` that results are made by from those; empty if they are the results.
    """

    size: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    has_bias: bool = False
    low: float | None = None
    high: float | None = None
    activation: str = ""

    def fitted(self, height: int, width: int) -> tuple[int, int]:
        """Return how many windows there are down and across."""
        top, left, bottom, right = self.padding
        reach = (height + top + bottom - self.size[0], width + left + right - self.size[1])
        return reach[0] // self.strides[0] + 1, reach[1] // self.strides[1] + 1


@dataclass(frozen=True)
class InvertedResidualShape:
    """What a kernel of :func:`inverted_residual` computes.

    Attributes
    ----------
    batch : int or None
        How many images there are; None where that is known at run time.
    height, width : int
        Of the data.
    expand : PackedGemmShape or None
        The first product, of one line of the data; all of its results are whole vectors.
    depthwise : DepthwiseShape
        The convolution.
    project : PackedGemmShape
        The last product, of one line of its results.
    """

    batch: int | None
    height: int
    width: int
    expand: PackedGemmShape | None
    depthwise: DepthwiseShape
    project: PackedGemmShape

    @property
    def channels(self) -> int:
        """How many channels the convolution has."""
        return int(self.project.inner)

    @property
    def result(self) -> tuple[int, int]:
        """How many positions results have down and across."""
        return self.depthwise.fitted(self.height, self.width)

    @property
    def pitch(self) -> int:
        """How many positions a line has that windows go along, with padding."""
        return self.width + self.depthwise.padding[1] + self.depthwise.padding[3]

    @property
    def kept(self) -> int:
        """How many numbers are read again: the lines that a window goes over, one of zeros, and one of results."""
        return ((self.depthwise.size[0] + 1) * self.pitch + self.result[1]) * self.channels

    def tensors(self, batch: Size) -> dict[str, list[Size]]:
        """Return the shapes of what the kernel takes, in its order, and of the result by their names."""
        e, d, p = self.expand, self.depthwise, self.project
        last = [batch, *self.result, p.outer]
        return {
            "data": [batch, self.height, self.width, self.channels if e is None else e.inner],
            "window": [*d.size, self.channels],
            **({"bias": [self.channels]} if d.has_bias else {}),
            "project": [p.blocks, p.inner, p.block],
            **({"project_bias": [p.outer]} if p.has_bias else {}),
            **({} if e is None else {"expand": [e.blocks, e.inner, e.block]}),
            **({} if e is None or not e.has_bias else {"expand_bias": [e.outer]}),
            **({"residual": last} if p.has_residual else {}),
            "out": last,
        }


def inverted_residual(shape: InvertedResidualShape, registers: int, chunks: int = 1) -> tirx.PrimFunc:
    """Return the kernel ``clip(clip(depthwise(clip(data @ expand + bias)) + bias) @ project + bias + residual)``.

    Data is (batch, height, width, channels); then come the window (down, across, channels) and its bias, the packed
    weight of the last product and its bias, those of the first product, the residual, and the result; those biases,
    products and residuals that there are. All are float32.

    Parameters
    ----------
    registers : int
        How many vector registers there are.
    chunks : int
        In how many parts cores share each image; 1 if they share images.
    """
    s = shape
    with kernel() as builder:
        batch = tirx.Var("batch", "int64") if s.batch is None else integer(s.batch)
        shapes = s.tensors(batch)
        handles = {name: T.arg(name, T.handle()) for name in shapes}
        buffers = {name: T.match_buffer(handles[name], shape, "float32", layout=None) for name, shape in shapes.items()}
        for name, have in shapes.items():
            if len(have) > 1:
                down, across = s.result
                is_rows = name in ("residual", "out")
                flat = [batch * (down * across), s.project.outer] if is_rows else [prod(have[1:]) * have[0]]
                buffers[name] = T.decl_buffer(flat, "float32", data=buffers[name].data, layout=None)
        if s.expand is None:
            with in_parallel(batch * s.result[0]) as number:
                _Lines(s, registers, buffers, 1).write_alone(number)
        elif chunks == 1:
            with in_parallel(batch) as image:
                lines = _Lines(s, registers, buffers, 1)
                lines.begin()
                lines.write(image, integer(0), integer(1))
        else:
            lines = _Lines(s, registers, buffers, chunks)
            lines.begin()
            with loop(batch) as image, loop(2) as step, in_parallel(chunks) as chunk:
                lines.write(image, chunk, step)
    return builder.get()


class _Lines:
    """Lines of results in chunks, and those of the first product that are kept for them.

    Kept are, one after the other, a line of zeros, lines that two chunks go over, which are computed beforehand, and
    for each chunk as many as a window is high, a line in the place of the one so many before it.
    """

    def __init__(
        self, shape: InvertedResidualShape, registers: int, buffers: dict[str, tirx.Buffer], chunks: int
    ) -> None:
        self._shape, self._registers, self._buffers, self._chunks = shape, registers, buffers, chunks
        d, self._lanes = shape.depthwise, shape.project.lanes
        self._slots, self._known = d.size[0], max(0, d.size[0] - d.strides[0])
        self._of_chunk = -(-shape.result[0] // chunks)
        self._own = 1 + (chunks - 1) * self._known  # where those of the first chunk begin
        if shape.expand is not None:
            self._kept = memory((self._own + chunks * self._slots) * shape.pitch * shape.channels)

    def begin(self) -> None:
        """Write zeros, which stay in their line, and left and right of the others."""
        s, lanes = self._shape, self._lanes
        with loop((self._own + self._chunks * self._slots) * s.pitch * s.channels // lanes) as i:
            T.buffer_store(self._kept, zeros(lanes), [ramp(i * lanes, lanes)])

    def write(self, image: tirx.Expr, chunk: tirx.Expr, step: tirx.Expr) -> None:
        """Compute a chunk of an image, as far as there are lines.

        In step 0 these are the lines of the first product that it has in common with the chunk before, in step 1 all
        others and the results: one text of a product for both.
        """
        s, down = self._shape, self._shape.result[0]
        line, of_chunk = memory(s.result[1] * s.channels), self._of_chunk
        first = in_register(chunk * of_chunk)
        after = in_register(self._top(first + of_chunk))
        count = tirx.Max(tirx.Min(integer(of_chunk), down - first), integer(0))
        count = tirx.Select(step > 0, count, tirx.Min(chunk, integer(1)))
        with loop(in_register(count)) as at:
            y = in_register(first + at)
            top = in_register(self._top(y))
            known = tirx.Select(tirx.And(step > 0, y > 0), integer(self._known), integer(0))
            begin = in_register(tirx.Max(integer(0), top + known))
            end = tirx.Min(integer(s.height), top + s.depthwise.size[0])
            if self._chunks > 1:
                end = tirx.Min(end, tirx.Select(chunk < self._chunks - 1, after, integer(s.height)))
                end = tirx.Select(step > 0, end, tirx.Min(integer(s.height), top + self._known))
            with loop(tirx.Max(end - begin, integer(0))) as i:
                own = in_register(begin + i)
                self._fill(image, own, in_register(self._place(own, chunk)))
            with when(step > 0):
                self._finish(image, y, chunk, line)

    def _finish(self, image: tirx.Expr, y: tirx.Expr, chunk: tirx.Expr, line: tirx.Buffer) -> None:
        """Compute a line of results from the lines that its windows go over."""
        s, begins, top = self._shape, [], in_register(self._top(y))
        for below in range(s.depthwise.size[0]):
            is_there = tirx.And(top + below >= 0, top + below < s.height)
            place = tirx.Select(is_there, self._place(top + below, chunk), integer(0))
            begins.append((in_register(place * (s.pitch * s.channels)), is_there))
        self._convolve(begins, line)
        self._project(image * s.result[0] + y, line)

    def write_alone(self, number: tirx.Expr) -> None:
        """Compute a line of all images' from the data, without a first product."""
        s, down = self._shape, integer(self._shape.result[0])
        line = memory(s.result[1] * s.channels)
        image = in_register(tirx.truncdiv(number, down))
        top = in_register(self._top(number - image * down))
        begins = []
        for i in range(s.depthwise.size[0]):
            begin = (image * s.height + top + i) * s.width - s.depthwise.padding[1]
            begins.append((in_register(begin * s.channels), tirx.And(top + i >= 0, top + i < s.height)))
        self._convolve(begins, line)
        self._project(number, line)

    def _top(self, y: tirx.Expr) -> tirx.Expr:
        """Return the line of the data that windows begin at."""
        return y * self._shape.depthwise.strides[0] - self._shape.depthwise.padding[0]

    def _shared(self, chunk: tirx.Expr) -> tirx.Expr:
        """Return where the lines are that a chunk has in common with the one before."""
        return 1 + (chunk - 1) * self._known

    def _place(self, line: tirx.Expr, chunk: tirx.Expr) -> tirx.Expr:
        """Return where a chunk has a line of the first product, or where it would be if there were one."""
        own = self._own + chunk * self._slots + tirx.truncmod(line + self._slots, integer(self._slots))
        if self._chunks == 1:
            return own
        begin, after = (self._top((chunk + n) * self._of_chunk) for n in (0, 1))
        at_begin = tirx.And(chunk > 0, line < begin + self._known)
        at_end = tirx.And(chunk < self._chunks - 1, line >= after)
        own = tirx.Select(at_end, self._shared(chunk + 1) + (line - after), own)
        return tirx.Select(at_begin, self._shared(chunk) + (line - begin), own)

    def _fill(self, image: tirx.Expr, line: tirx.Expr, place: tirx.Expr) -> None:
        """Compute a line of the first product."""
        s, product = self._shape, self._shape.expand
        assert product is not None
        rows = [(self._own + self._chunks * self._slots) * s.pitch, s.channels]
        buffers = {
            "data": self._buffers["data"],
            "weight": self._buffers["expand"],
            "out": T.decl_buffer(rows, "float32", data=self._kept.data, layout=None),
        }
        if product.has_bias:
            buffers["bias"] = self._buffers["expand_bias"]
        row = in_register((image * s.height + line) * s.width)
        self._multiply(product, buffers, row, in_register(place * s.pitch + s.depthwise.padding[1]))

    def _project(self, number: tirx.Expr, line: tirx.Buffer) -> None:
        """Compute one of the lines of results of all images from one of the convolution."""
        s = self._shape
        buffers = {"data": line, "weight": self._buffers["project"], "out": self._buffers["out"]}
        if s.project.has_bias:
            buffers["bias"] = self._buffers["project_bias"]
        if s.project.has_residual:
            buffers["residual"] = self._buffers["residual"]
        self._multiply(s.project, buffers, integer(0), in_register(number * s.result[1]))

    def _multiply(
        self, shape: PackedGemmShape, buffers: dict[str, tirx.Buffer], row: tirx.Expr, place: tirx.Expr
    ) -> None:
        """Multiply a line of rows from `row` of the data on, which becomes rows of the result from `place` on."""
        plan = self._plan(shape)
        assert shape.rows is not None
        further, over = in_register(place - row), shape.rows % plan.rows
        with loop(shape.blocks) as block, loop(-(-shape.rows // plan.rows)) as part:
            at = part * plan.rows
            at = tirx.Min(at, integer(shape.rows - plan.rows)) if over else at
            rows = GemmRows.of(in_register(row + at), plan.rows, None)
            GemmTile(shape, plan, buffers, None, rows, block, part, shape.block, further).write_of_block()

    def _plan(self, shape: PackedGemmShape) -> PackedGemmPlan:
        # Weights are used for each line, and so are near.
        return replace(plan_packed_gemm(shape, self._registers), fetched=0)

    def _convolve(self, lines: Sequence[tuple[tirx.Expr, tirx.Expr]], result: tirx.Buffer) -> None:
        """Compute a line of the convolution from those lines: where each begins in memory, and whether it is there."""
        across, size = self._shape.result[1], self._positions()
        starts = [min(x, across - size) for x in range(0, across, size)]
        inside = [at for at, x in enumerate(starts) if all(self._is_inside(x, c) for c in self._columns(size))]
        for at, x in enumerate(starts):
            if at not in inside:
                self._tile(lines, integer(x), [c for c in self._columns(size) if self._is_inside(x, c)], result)
        if inside:
            with loop(len(inside)) as tile:
                x = (tile + inside[0]) * size
                x = in_register(tirx.Min(x, integer(across - size)) if across % size else x)
                self._tile(lines, x, self._columns(size), result)

    def _columns(self, size: int) -> list[int]:
        """Return which columns, of a padded line, the windows of so many positions go over, from the first of them."""
        d = self._shape.depthwise
        return list(range((size - 1) * d.strides[1] + d.size[1]))

    def _is_inside(self, x: int, column: int) -> bool:
        """Say whether a column of the windows from a position on is in memory."""
        s = self._shape
        return s.expand is not None or 0 <= x * s.depthwise.strides[1] + column - s.depthwise.padding[1] < s.width

    def _tile(
        self,
        lines: Sequence[tuple[tirx.Expr, tirx.Expr]],
        x: tirx.Expr,
        columns: Sequence[int],
        result: tirx.Buffer,
    ) -> None:
        """Compute positions of a line from `x` on, whose windows have some columns that are in memory."""
        s, d, lanes = self._shape, self._shape.depthwise, self._lanes
        with loop(s.channels // lanes) as vector:
            channel = in_register(vector * lanes)
            start = T.Bind(self._buffers["bias"][ramp(channel, lanes)]) if d.has_bias else zeros(lanes)
            totals = [register(lanes) for _ in range(self._positions())]
            for total in totals:
                T.buffer_store(total, start, [integer(0)])
            ahead = in_register(x * (d.strides[1] * s.channels) + channel)
            for i, (begin, is_there) in enumerate(lines):
                # Among lines that are kept there is one of zeros instead.
                with when(is_there) if s.expand is None else nullcontext():
                    self._add_line(totals, i, in_register(begin + ahead), channel, columns)
            for t, total in enumerate(totals):
                value = finished(total[0], d.low, d.high, d.activation, lanes)
                T.buffer_store(result, value, [ramp((x + t) * s.channels + channel, lanes)])

    def _positions(self) -> int:
        """Return how many positions of a line go together: few of them are computed twice at its end."""
        across, width = self._shape.result[1], self._shape.depthwise.size[1]
        most = min(across, _POSITIONS, max(2, self._registers - width - _OTHERS))
        return min(range(1, most + 1), key=lambda size: (-(-across // size) * (size + 2), -size))

    def _add_line(
        self, totals: Sequence[tirx.Buffer], line: int, begin: tirx.Expr, channel: tirx.Expr, columns: Sequence[int]
    ) -> None:
        """Add the products of a line of the windows to the sums of positions next to each other."""
        s, d, lanes = self._shape, self._shape.depthwise, self._lanes
        (_, width), step = d.size, d.strides[1]
        data, window = self._buffers["data"] if s.expand is None else self._kept, self._buffers["window"]
        factors = [T.Bind(window[ramp((line * width + j) * s.channels + channel, lanes)]) for j in range(width)]
        for column in columns:
            users = [(t, column - t * step) for t in range(len(totals)) if 0 <= column - t * step < width]
            if users:
                value = T.Bind(data[ramp(begin + column * s.channels, lanes)])
                for t, j in users:
                    add_to(totals[t], value * factors[j])
