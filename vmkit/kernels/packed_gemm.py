"""Products of rows with a packed weight on a CPU: convolutions, with what follows them.

All positions of all images are rows of one matrix, so no tile is cut at the edge of a small image. Where windows have
more than one element, or do not begin at every position, each row of a tile begins where its window does in the data,
which are padded already, or have one element that stands for all padding; see
:class:`.packed_gemm_plan.PackedGemmWindow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import mul

from tvm import tirx

from .._dataclasses import dataclass
from .activation import finished
from .builder import (
    Size,
    T,
    add_to,
    as_expr,
    broadcast,
    fetch_ahead,
    in_parallel,
    in_register,
    integer,
    kernel,
    loop,
    ramp,
    register,
    shuffled,
    splat,
)
from .packed_gemm_plan import (
    LINE,
    Corner,
    PackedGemmImage,
    PackedGemmPlan,
    PackedGemmShape,
    PackedGemmWindow,
    fetched,
    lines_of,
    most_parts,
    parts_at_run_time,
    rows_ahead,
    vectors_of,
)

__all__ = ["GemmRows", "GemmTile", "packed_gemm", "shared_packed_gemm", "write_products"]

_FEW = 4  # rows that go together where there are fewer than a tile has
_CHAINS = 8  # sums that are added to in turn while the first of them is not done yet


def shared_packed_gemm(shape: PackedGemmShape, plan: PackedGemmPlan, is_enough: bool = False) -> tirx.PrimFunc:
    """Return the kernel of :func:`packed_gemm` that shapes which differ in sizes alone have in common.

    It is given its sizes with the shapes of its buffers. Steps that are unrolled have to divide the length of sums.

    Parameters
    ----------
    shape : PackedGemmShape
        Without sizes.
    plan : PackedGemmPlan
        Whose parts are None: the kernel finds them.
    is_enough : bool
        Whether there are at least as many rows as a tile has.
    """
    return packed_gemm(shape.with_variables(), plan, is_enough)


def packed_gemm(shape: PackedGemmShape, plan: PackedGemmPlan, is_enough: bool = False) -> tirx.PrimFunc:
    """Return the kernel ``out = activation(clip(data @ weight + bias + residual))``.

    Data is (*lead, inner), of groups (*lead, pitch), or an image if there is a window; the weight (blocks, inner,
    block); then come more data, if rows are of several tensors, bias (outer,) and residual where there are any, and the
    result (*lead, outer). All are float32. The last tile begins where it ends with the data, and computes some rows
    again; data of fewer rows than a tile go by a few at a time, of which those that are beyond the last one are this
    one again.
    """
    s, p = shape, plan
    with kernel() as builder:
        data, *more = s.data
        names = [data, "weight", *more, *["bias"] * s.has_bias, *["residual"] * s.has_residual, "out"]
        handles = {name: T.arg(name, T.handle()) for name in names}
        lead = [_size(f"d{i}", size) for i, size in enumerate(s.lead)]
        w, image = s.window, None
        read: dict[str, list[Size]] = {name: [*lead, size] for name, size in s.data.items()}
        if w is not None:
            height, width = (_size(name, size) for name, size in (("height", w.height), ("width", w.width)))
            read = {data: [lead[0], height, width, w.channels]}
            image = PackedGemmImage(height, width, lead[1], lead[2])
        shapes = {
            **read,
            "weight": [s.blocks, s.inner, s.block],
            "bias": [s.outer],
        }
        buffers = {
            name: T.match_buffer(handle, shapes.get(name, [*lead, s.outer]), "float32", layout=None)
            for name, handle in handles.items()
        }
        write_products(s, p, buffers, lead, image, is_enough)
    return builder.get()


def write_products(
    s: PackedGemmShape,
    p: PackedGemmPlan,
    buffers: Mapping[str, tirx.Buffer],
    lead: Sequence[tirx.Expr],
    image: PackedGemmImage | None,
    is_enough: bool = False,
    has_one_form: bool = False,
) -> None:
    """Write what :func:`packed_gemm` does, into a kernel that has its buffers.

    Parameters
    ----------
    s : PackedGemmShape
    p : PackedGemmPlan
    buffers : dict of str to Buffer
        By the names that :func:`packed_gemm` has for them; of any shapes.
    lead : sequence of expression
        The sizes of the axes whose positions are the rows of the result.
    image : PackedGemmImage or None
        Where there is a window, what it goes over.
    is_enough : bool
        Whether there are at least as many rows as a tile has.
    has_one_form : bool
        Whether the same loops are for fewer rows: half as much to compile, where rows beyond the last cost little.
    """
    # All positions are one axis; what begins anywhere in memory is read from there.
    rows = reduce(mul, lead)
    flat: dict[str, list[Size]] = {name: [reduce(mul, buffers[name].ty.shape)] for name in ("weight", *s.data)}
    flat |= {name: [rows, s.outer] for name in ("residual", "out") if name in buffers}
    own = {name: T.decl_buffer(size, "float32", data=buffers[name].data, layout=None) for name, size in flat.items()}
    if has_one_form:
        _tiles(s, p, {**buffers, **own}, rows, image, is_few=True)
        return
    _versions(s, p, {**buffers, **own}, rows, image, is_enough)


def _versions(
    s: PackedGemmShape,
    p: PackedGemmPlan,
    buffers: dict[str, tirx.Buffer],
    rows: tirx.Expr,
    image: PackedGemmImage | None,
    is_enough: bool,
) -> None:
    """Write the loops for at least as many rows as a tile has, and those for fewer where there may be fewer."""
    if s.rows is not None or is_enough:
        _tiles(s, p, buffers, rows, image)
        return
    few = _for_fewer(s, p)
    if s.window is None and all(size == 1 for size in s.lead[1:]):
        # One row for each of a batch, which are few mostly, and which as few at a time take hardly longer when many.
        _tiles(s, few, buffers, rows, image, is_few=True)
        return
    with T.If(rows >= p.rows):
        with T.Then():
            _tiles(s, p, buffers, rows, image)
        with T.Else():
            _tiles(s, few, buffers, rows, image, is_few=True)


def _for_fewer(s: PackedGemmShape, p: PackedGemmPlan) -> PackedGemmPlan:
    """Return the plan for fewer rows than a tile has.

    A row alone would leave the multipliers waiting for the sum before: as many as they have time for cost nothing.
    """
    rows = max(1, min(_FEW, p.rows, _CHAINS // (s.block // s.lanes)))
    unrolled = next(u for u in (2, 1) if p.unrolled % u == 0)
    lines = p.fetched if p.parts is None else fetched(s, rows, 1, unrolled)
    # All of these rows go by a block before the next one comes, which may come from memory.
    return PackedGemmPlan(rows, -(-p.rows // rows), unrolled, lines)


def _size(name: str, size: int | None) -> tirx.Expr:
    return tirx.Var(name, "int64") if size is None else integer(size)


def _tiles(
    s: PackedGemmShape,
    p: PackedGemmPlan,
    buffers: dict[str, tirx.Buffer],
    rows: tirx.Expr,
    image: PackedGemmImage | None,
    is_few: bool = False,
) -> None:
    tiles = tirx.floordiv(rows + (p.rows - 1), p.rows)
    parts = integer(p.parts) if p.parts is not None else in_register(parts_at_run_time(s, p.rows))
    is_of_any_size = s.rows is None or p.parts is None
    if is_of_any_size:
        parts = in_register(tirx.Max(tirx.Min(parts, most_parts(s, tiles)), integer(1)))
    groups = tirx.floordiv(tiles + (parts - 1), parts)
    if is_of_any_size:
        # As the plan for a known number of rows has it: as few groups, as equal as can be.
        parts = in_register(tirx.floordiv(tiles + (groups - 1), tirx.Max(groups, integer(1))))
        parts = in_register(tirx.Max(parts, integer(1)))
        groups = tirx.floordiv(tiles + (parts - 1), parts)
    with in_parallel(groups * s.blocks) as work:
        block, group = tirx.floormod(work, s.blocks), tirx.floordiv(work, s.blocks)
        count = tirx.Min(parts, tiles - group * parts)
        with loop(count) as part:
            first = (group * parts + part) * p.rows
            first = in_register(first if is_few else tirx.Min(first, rows - p.rows))
            last = rows - 1 if is_few else None
            tile = GemmTile(s, p, buffers, image, GemmRows.of(first, p.rows, last), block, part, s.block)
            if rows_ahead(s, p) and not is_few:
                after = in_register(tirx.Min(((group + 1) * parts + part) * p.rows, rows - p.rows))
                tile = replace(tile, after=after, count=rows)
            tile.write_of_block()


@dataclass(frozen=True)
class GemmRows:
    """Rows of a tile: one after the other from `first` on, those beyond the `last` one, if it may be here, this one."""

    first: tirx.Expr
    last: tirx.Expr | None
    places: list[tirx.Expr]

    @staticmethod
    def of(first: tirx.Expr, count: int, last: tirx.Expr | None) -> GemmRows:
        places = [first + r for r in range(count)]
        if last is not None:
            places[1:] = [in_register(tirx.Min(place, last)) for place in places[1:]]
        return GemmRows(first, last, places)


@dataclass(frozen=True)
class GemmTile:
    """Some rows of the result, in `width` columns of a block; rows of the data are as many, `further` before them.

    Those `after` them, if any, are fetched meanwhile: they go by next, when all blocks of the weight have. Beyond the
    `count` of all rows that is their last element, again and again: other lines would be waited for in vain.
    """

    shape: PackedGemmShape
    plan: PackedGemmPlan
    buffers: dict[str, tirx.Buffer]
    image: PackedGemmImage | None
    rows: GemmRows
    block: tirx.Expr
    part: tirx.Expr
    width: int
    further: Size = 0
    after: tirx.Expr | None = None
    count: Size = 0

    def write_of_block(self) -> None:
        """Write the tile as wide as its block is, which may be the last one."""
        s = self.shape
        if s.width_of_last == s.block:
            self.write()
            return
        with T.If(self.block < s.blocks - 1):
            with T.Then():
                self.write()
            with T.Else():
                replace(self, width=s.width_of_last).write()

    def write(self) -> None:
        s, p, places = self.shape, self.plan, self.rows.places
        lanes = s.vectors(self.width)
        vectors = range(len(lanes))
        total = [[register(own, is_short=own < s.lanes) for own in lanes] for _ in range(p.rows)]
        first, ahead = self._begin()
        channels = [in_register(first + v * s.lanes) for v in vectors]
        parts = [vectors_of(min(s.lanes, self.width - v * s.lanes), s.lanes) for v in vectors]
        starts = [
            T.Bind(self.buffers["bias"][ramp(channel, have)]) if s.has_bias and own == [(0, have)] else splat(0.0, have)
            for channel, own, have in zip(channels, parts, lanes, strict=True)
        ]
        for row in total:
            for each, start in zip(row, starts, strict=True):
                T.buffer_store(each, start, [integer(0)])
        self._fetch_ends(channels[0])
        begin = in_register(self.block * (s.inner * s.block))
        if s.window is None or self.image is None:
            before: Size = 0
            known = places[:1] if self.rows.last is None else places
            for name, pitch in s.data.items():
                data = [in_register(place * pitch + ahead) for place in known]
                begins = [data[0] + r * pitch for r in range(p.rows)] if self.rows.last is None else data
                rounds = (pitch if s.joined else s.inner) // p.unrolled
                self._sum(total, lanes, name, begins, begin + before * (p.unrolled * s.block), (before, rounds))
                before = before + rounds
        else:
            window, image = s.window, self.image
            if s.is_of_known_image:
                rows = [_kept(window.corner(place, image), window) for place in places]
            else:  # Divisions by what is known are multiplications.
                rows = _corners(window, self.rows, image)
            self._sum_of_windows(total, lanes, rows, begin, window, image)
        for r in range(p.rows):
            for v in vectors:
                self._store(total[r][v][0], lanes[v], self.further + places[r], channels[v], parts[v])

    def _begin(self) -> tuple[tirx.Expr, Size]:
        """Return at which element of a row of the result the block begins, and its group at which one of the data's."""
        s, block = self.shape, self.block
        if s.pitch is None:
            first = block * s.block
            return in_register(tirx.Min(first, as_expr(s.outer - s.block))) if s.overlaps else first, 0
        units, blocks = in_register(as_expr(s.outer // s.groups)), in_register(as_expr(s.blocks_of_group))
        group = in_register(tirx.truncdiv(block, blocks))
        own = tirx.Min((block - group * blocks) * s.block, units - s.block)
        return in_register(group * units + own), in_register(group * s.inner)

    def _fetch_ends(self, channel: tirx.Expr) -> None:
        """Have the lines fetched that the end of the sums reads and writes: every line of a row's part of the block.

        These parts are a row apart, where no processor expects them: it waits for them unless the residual comes a tile
        earlier, and the result while sums run.
        """
        for r, place in enumerate(self.rows.places):
            for at in range(0, self.width, LINE):
                if self.shape.has_residual:
                    after = self.further + self.rows.first + (self.plan.rows + r)
                    fetch_ahead(self.buffers["residual"][after, channel + at])
                fetch_ahead(self.buffers["out"][self.further + place, channel + at], cache=1, to_write=True)

    def _store(
        self, total: tirx.Expr, have: int, row: tirx.Expr, channel: tirx.Expr, parts: Sequence[tuple[int, int]]
    ) -> None:
        """Write what becomes of a vector of `have` sums: all of it, or the parts of it that are of the result."""
        s, buffers = self.shape, self.buffers
        for begin, lanes in parts:
            channels = ramp(channel + begin, lanes)
            value = total
            if lanes < have:
                value = shuffled(total, total, range(begin, begin + lanes))
                value = value + buffers["bias"][channels] if s.has_bias else value  # no sum began with it
            value = value + buffers["residual"][row, channels] if s.has_residual else value
            value = finished(value, s.low, s.high, s.activation, lanes)
            T.buffer_store(buffers["out"], value, [row, channels])

    def _sum_of_windows(
        self,
        total: Sequence[Sequence[tirx.Buffer]],
        lanes: Sequence[int],
        rows: list[Corner],
        begin: tirx.Expr,
        w: PackedGemmWindow,
        image: PackedGemmImage,
    ) -> None:
        (top, down), (left, across) = self._runs(w, image)
        rounds = w.run // self.plan.unrolled
        zeros = in_register((image.height - 1) * image.width * w.channels) if w.is_beyond_data else integer(0)
        with loop(down) as i, loop(across) as j:
            y, x = top + i, left + j
            run, offset = y * w.runs[1] + x, in_register(w.offset(y, x, image))
            weight = in_register(begin + run * (w.run * self.shape.block))
            elements = [element + offset for element, *_ in rows]
            if w.is_beyond_data:
                ends = (image.height - 1, image.width)
                further = [in_register(n * step) for n, step in zip((y, x), w.dilation, strict=True)]
                for r, (_, *corner) in enumerate(rows):
                    at = [first + n for first, n in zip(corner, further, strict=True)]
                    is_inside = tirx.all(*(tirx.all(n >= 0, n < end) for n, end in zip(at, ends, strict=True)))
                    elements[r] = in_register(tirx.Select(is_inside, elements[r], zeros))
            self._sum(total, lanes, "data", elements, weight, (run * rounds, rounds))

    def _runs(self, w: PackedGemmWindow, image: PackedGemmImage) -> list[tuple[tirx.Expr, tirx.Expr]]:
        """Return the first and the number, down and across, of the parts of windows that are not zeros for all rows."""
        if not w.is_beyond_data:
            return [(integer(0), integer(count)) for count in w.runs]
        first, last = self.rows.places[0], self.rows.places[-1]
        lines = [in_register(tirx.truncdiv(place, image.across)) for place in (first, last)]
        columns = [place - line * image.across for place, line in zip((first, last), lines, strict=True)]
        batches = [in_register(tirx.truncdiv(line, image.down)) for line in lines]
        ys = [line - batch * image.down for line, batch in zip(lines, batches, strict=True)]
        top, left, *_ = w.padding
        axes = (
            (tirx.EQ(*batches), ys, image.down, image.height - 1, top),
            (tirx.EQ(*lines), columns, image.across, image.width, left),
        )
        found = []
        for at, (is_one, places, count, size, before) in enumerate(axes):
            # Rows that go over the end of a line are anywhere on it.
            low, high = tirx.Select(is_one, places[0], integer(0)), tirx.Select(is_one, places[1], count - 1)
            step, stride, most = w.dilation[at], w.strides[at], integer(w.runs[at])
            begin, end = (
                in_register(tirx.Min(most, tirx.truncdiv(tirx.Max(reach, integer(0)) + (step - 1), integer(step))))
                for reach in (before - high * stride, before + size - low * stride)
            )
            found.append((begin, tirx.Max(end - begin, integer(0))))
        return found

    def _sum(
        self,
        total: Sequence[Sequence[tirx.Buffer]],
        lanes: Sequence[int],
        data: str,
        rows: list[tirx.Expr],
        begin: tirx.Expr,
        part: tuple[Size, Size],
    ) -> None:
        """Add the products of a part of each row that follows each other in memory: rounds before it, and in it."""
        s, p = self.shape, self.plan
        weight = self.buffers["weight"]
        before, rounds = part
        next_block = in_register((self.block + 1) * (s.inner * s.block))
        ahead, next_rows = 0, as_expr(0)
        if self.after is not None:
            ahead = rows_ahead(s, p)
            next_rows = in_register(self.after * s.inner + self.block * (ahead * LINE * rounds))
        done = in_register((self.part * (s.inner // p.unrolled) + before) * p.fetched)
        with loop(rounds) as outer:
            for line in range(ahead):
                at = next_rows + (outer * ahead + line) * LINE
                fetch_ahead(self.buffers[data][tirx.Min(at, as_expr(self.count * s.inner - 1))])
            for line in range(0 if ahead else p.fetched):  # the weight is there, and stays
                at = tirx.Min(done + (outer * p.fetched + line), as_expr(lines_of(s) - 1))
                fetch_ahead(weight[next_block + at * LINE])
            for step in range(p.unrolled):
                k = in_register(outer * p.unrolled + step)
                columns = [T.Bind(weight[ramp(begin + k * s.block + v * s.lanes, own)]) for v, own in enumerate(lanes)]
                for r in range(p.rows):
                    x = T.Bind(self.buffers[data][rows[r] + k])
                    wide = {own: T.Bind(broadcast(x, own)) for own in dict.fromkeys(lanes)}
                    for v, own in enumerate(lanes):
                        add_to(total[r][v], wide[own] * columns[v])


def _corners(window: PackedGemmWindow, rows: GemmRows, image: PackedGemmImage) -> list[Corner]:
    """Return where the windows of rows begin, of which the first alone takes divisions."""
    first = rows.first
    line = in_register(tirx.truncdiv(first, image.across))
    of_batch = in_register(tirx.truncdiv(line, image.down))
    y, x = in_register(line - of_batch * image.down), in_register(first - line * image.across)
    found = [_kept(window.at((of_batch, y, x), image), window)]
    for r in range(len(rows.places) - 1):
        goes_on = x + 1 < image.across
        ends = tirx.And(tirx.Not(goes_on), y + 1 >= image.down)
        below = tirx.Select(ends, integer(0), y + 1)
        x, y, of_batch = (
            in_register(tirx.Select(goes_on, x + 1, integer(0))),
            in_register(tirx.Select(goes_on, y, below)),
            in_register(tirx.Select(ends, of_batch + 1, of_batch)),
        )
        own = window.at((of_batch, y, x), image)
        if rows.last is not None:  # beyond it, this one again
            is_row = first + r < rows.last
            own = tuple(tirx.Select(is_row, a, b) for a, b in zip(own, found[r], strict=True))
        found.append(_kept(own, window))
    return found


def _kept(corner: Corner, window: PackedGemmWindow) -> Corner:
    """Return a corner of which what is read is in registers."""
    element, down, across = corner
    if not window.is_beyond_data:
        return in_register(element), down, across
    return in_register(element), in_register(down), in_register(across)
