"""The loops of a product with a weight of few bits: some rows at a time go by all panels of the weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import mul

from tvm import tirx

from ..._dataclasses import dataclass
from ...target.processor import CACHES
from ..builder import (
    Size,
    T,
    add_to,
    as_expr,
    broadcast,
    either,
    fetch_ahead,
    in_parallel,
    in_register,
    integer,
    kernel,
    local,
    loop,
    memory,
    ramp,
    register,
    splat,
    when,
)
from ..packed_product.sizes import divided, even_tile, least
from .arithmetic import Arithmetic, Block, Prepared
from .shape import BlockQuantizedShape

__all__ = ["block_quantized_product"]

_AHEAD = 8192  # bytes of the weight between what is multiplied and what is fetched: half as many, and 8 rows wait
_FEW = 4  # rows that one core makes ready sooner than it asks others to


def block_quantized_product(
    shape: BlockQuantizedShape, arithmetic: Arithmetic, lead: Sequence[int | None], most: int
) -> tirx.PrimFunc:
    """Return the kernel ``out = data @ ((codes - zeros) * scales).T + bias``.

    Data is (*lead, channels) in float32; the weight has the words of :meth:`.Arithmetic.packed`; scales and,
    where there are any, zeros are (panels, blocks, lanes), the bias (panels, lanes), the result (*lead, units).

    Parameters
    ----------
    lead : sequence of int or None
        The axes of rows, None for those that are known at run time.
    most : int
        How many rows share what is loaded of the weight.
    """
    return _Writer(shape, arithmetic, most).function(lead)


@dataclass
class _Writer:
    shape: BlockQuantizedShape
    arithmetic: Arithmetic
    most: int

    @property
    def pitch(self) -> int:
        """How far a row's numbers are from the next row's: by no power of two, which would share lines of a cache."""
        return self.shape.depth + CACHES.line // (1 if self.arithmetic.numbers == "int8" else 4)

    def function(self, lead: Sequence[int | None]) -> tirx.PrimFunc:
        s, a = self.shape, self.arithmetic
        with kernel() as builder:
            names = ["data", "weight", "scales", *["zeros"] * bool(s.zeros), *["bias"] * s.has_bias, "out"]
            handles = {name: T.arg(name, T.handle()) for name in names}
            sizes = [tirx.Var(f"d{i}", "int64") if size is None else integer(size) for i, size in enumerate(lead)]
            once = (s.panels, s.blocks, s.lanes)
            shapes: dict[str, tuple[tuple[Size, ...], str]] = {
                "data": ((*sizes, s.channels), "float32"),
                "weight": (a.shape(s), f"uint{a.word}"),
                "scales": (once, "float32"),
                "zeros": (once, s.zeros),
                "bias": ((s.panels, s.lanes), "float32"),
                "out": ((*sizes, s.units), "float32"),
            }
            matched = {name: T.match_buffer(handles[name], *shapes[name], layout=None) for name in names}
            self.buffers = {name: _flat(buffer) for name, buffer in matched.items()}
            known = reduce(mul, [d for d in lead if d is not None], 1) if None not in lead else None
            self._rows(known, known if known is not None else T.Bind(reduce(mul, sizes)))
        return builder.get()

    def _rows(self, known: int | None, rows: Size) -> None:
        """Write the loop over groups of as many rows as stay in the cache."""
        s, a = self.shape, self.arithmetic
        width = 1 if a.numbers == "int8" else 4
        fit = max(1, CACHES.half_of_second // (self.pitch * width) // self.most) * self.most
        count: Size = min(fit, known) if known is not None else least(rows, fit)
        room = count if known is not None else T.Bind(count)
        ready = Prepared(
            memory(room * self.pitch, a.numbers),
            memory(room * s.blocks),
            memory(room * s.blocks) if a.has_factors else None,
        )
        groups = -(-known // fit) if known is not None else tirx.floordiv(as_expr(rows) + (fit - 1), fit)
        with loop(groups) as group:
            first = in_register(group * fit)
            here: Size = room if known is not None and known <= fit else in_register(least(rows - first, fit))
            self._prepare(ready, first, here)
            # By another name: TVM works out which parts of a kernel's memory are read, in time that grows as the square
            # of how many reads are written out.
            numbers = T.decl_buffer((as_expr(room * self.pitch),), a.numbers, data=ready.numbers.data, layout=None)
            with in_parallel(s.panels) as panel:
                self._panel(replace(ready, numbers=numbers), panel, first, here)

    # -- rows

    def _prepare(self, ready: Prepared, first: Size, count: Size) -> None:
        def serial() -> None:
            with loop(count) as row:
                self._prepare_row(ready, first, row)

        def shared() -> None:
            with in_parallel(count) as row:
                self._prepare_row(ready, first, row)

        if isinstance(count, int):
            (serial if count <= _FEW else shared)()
        else:
            either(count <= _FEW, serial, shared)

    def _prepare_row(self, ready: Prepared, first: Size, row: Size) -> None:
        s, data = self.shape, self.buffers["data"]
        whole, rest = divmod(s.channels, s.block)
        source, to, once = (in_register(v) for v in ((first + row) * s.channels, row * self.pitch, row * s.blocks))
        with loop(whole) as b:
            at = in_register(b * s.block)
            self.arithmetic.prepare(s, lambda i: data[ramp(source + at + i, s.lanes)], ready, to + at, once + b)
        if rest:
            filled = local(s.block)
            with T.vectorized(s.block) as i:
                T.buffer_store(filled, tirx.const(0.0, "float32"), [i])
            with loop(rest) as i:
                T.buffer_store(filled, data[source + whole * s.block + i], [i])
            last = whole * s.block
            self.arithmetic.prepare(s, lambda i: filled[ramp(i, s.lanes)], ready, to + last, once + whole)

    # -- panels

    def _panel(self, ready: Prepared, panel: tirx.Var, first: Size, count: Size) -> None:
        """Write the products of all rows at hand with a panel, by the most rows at once that there are."""
        if isinstance(count, int):
            self._tiles(ready, panel, first, count, even_tile(count, self.most))
            return
        sizes = [self.most >> i for i in range(self.most.bit_length())]
        chosen: Size = 1
        for size in reversed(sizes[:-1]):
            chosen = tirx.Select(count >= size, integer(size), as_expr(chosen))
        chosen = in_register(chosen)
        for size in sizes:
            with when(chosen == size):
                self._tiles(ready, panel, first, count, size)

    def _tiles(self, ready: Prepared, panel: tirx.Var, first: Size, count: Size, size: int) -> None:
        with loop(in_register(divided(count + (size - 1), size)[0])) as tile:
            # The last tile ends with the rows, and computes some again.
            self._tile(ready, panel, first, in_register(least(tile * size, count - size)), size)

    def _tile(self, ready: Prepared, panel: tirx.Var, first: Size, begin: Size, rows: int) -> None:
        s, a, buffers = self.shape, self.arithmetic, self.buffers
        totals = [register(s.lanes) for _ in range(rows)]
        for total in totals:
            start = buffers["bias"][ramp(panel * s.lanes, s.lanes)] if s.has_bias else splat(0.0, s.lanes)
            T.buffer_store(total, start, [integer(0)])
        words = in_register(panel * (s.blocks * a.loads(s) * s.lanes * a.group))
        once = in_register(panel * (s.blocks * s.lanes))
        numbers, per_block = in_register(begin * self.pitch), in_register(begin * s.blocks)
        with loop(s.blocks) as b:
            at = ramp(in_register(once + b * s.lanes), s.lanes)
            scale = T.Bind(buffers["scales"][at])
            zero = T.Bind(tirx.Cast(f"float32x{s.lanes}", buffers["zeros"][at])) if s.zeros else None

            def start(r: int, b: Size = b, zero: tirx.Expr | None = zero) -> tirx.Expr:
                value = broadcast(ready.corrections[per_block + (r * s.blocks) + b], s.lanes)
                return value if zero is None else value * zero

            inputs = in_register(numbers + b * s.block)
            begins = [inputs + r * self.pitch for r in range(rows)]
            at_words = in_register(words + b * (a.loads(s) * s.lanes * a.group))
            self._fetch_ahead(at_words)
            sums = a.sums(s, Block(ready.numbers, buffers["weight"], begins, at_words, start))
            for r in range(rows):
                value = sums[r] * scale
                if ready.factors is not None:
                    value = value * broadcast(ready.factors[per_block + (r * s.blocks) + b], s.lanes)
                add_to(totals[r], value)
        self._store(totals, panel, first + begin)

    def _fetch_ahead(self, words: Size) -> None:
        """Have as many words fetched as a block has, so far ahead of a block's that memory is never waited for."""
        s, a = self.shape, self.arithmetic
        line = CACHES.line * 8 // a.word
        for first in range(0, a.loads(s) * s.lanes * a.group, line):
            fetch_ahead(self.buffers["weight"][words + (_AHEAD * 8 // a.word + first)], cache=1)

    def _store(self, totals: list[tirx.Buffer], panel: tirx.Var, first: Size) -> None:
        s, out = self.shape, self.buffers["out"]
        rest = s.units % s.lanes

        def whole() -> None:
            for r, total in enumerate(totals):
                T.buffer_store(out, total[0], [ramp(in_register((first + r) * s.units + panel * s.lanes), s.lanes)])

        def part() -> None:
            kept = local(s.lanes)
            for r, total in enumerate(totals):
                T.buffer_store(kept, total[0], [ramp(integer(0), s.lanes)])
                at = in_register((first + r) * s.units + panel * s.lanes)
                with loop(rest) as lane:
                    T.buffer_store(out, kept[lane], [at + lane])

        if not rest:
            whole()
            return
        with when(panel < s.panels - 1):
            whole()
        with when(panel == s.panels - 1):
            part()


def _flat(buffer: tirx.Buffer) -> tirx.Buffer:
    """Return an operand as numbers of one axis."""
    return T.decl_buffer((reduce(mul, buffer.shape),), str(buffer.dtype), data=buffer.data, layout=None)
