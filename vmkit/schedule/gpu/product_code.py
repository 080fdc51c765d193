"""Matrix products written anew, over tiles of fixed sizes, whatever the sizes of the kernel.

Sizes are rounded up to whole tiles, and what is outside of the operands is zero, so that only the blocks that read
the operands and the one that writes the results know where these end: the sums in between need no conditions. Sums may
be cut in parts, which are computed as batches of their own and added up in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

from ..._dataclasses import dataclass
from ..._tvm.nodes import is_choice
from ..blocks import accesses
from ..expressions import replaced
from .product import Operand, Product

__all__ = ["LEFT", "RESULT", "RIGHT", "SUMS", "TOTAL", "Layout", "written"]

LEFT, RIGHT, SUMS, RESULT, TOTAL = "left", "right", "sums", "result", "total"
"""The names of the blocks. Where sums are cut in parts, `result` writes these and `total` adds them up."""

At = Mapping[str, "tirx.Expr"]  # by the names of axes
Statement = Callable[[At], tirx.Stmt]  # takes the variables of a block by the names of its axes


@dataclass(frozen=True)
class Layout:
    """The sizes of tiles, and how tiles of operands lie in memory.

    Attributes
    ----------
    rows, columns : tuple of int
        The factors of a tile's size along i and along j, the outermost first. Blocks have an axis for each: ``i0`` for
        the tiles, ``i1`` and so on within one.
    step : int
        A tile's size along k.
    parts : int
        In how many parts sums are cut.
    left, right : str
        Where k is among the axes of the operand's tiles: ``outer``, ``inner``, or ``between`` the last factor and the
        others.
    sums : str
        The type of sums.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    step: int
    parts: int
    left: str
    right: str
    sums: str = "float32"


def written(function: tirx.PrimFunc, product: Product, layout: Layout) -> tirx.PrimFunc:
    """Return the kernel of a product with its parameters as they were, as blocks for a schedule of tiles."""
    return _Writer(function, product, layout).function()


@dataclass(frozen=True)
class _Writer:
    plain: tirx.PrimFunc
    product: Product
    layout: Layout

    def function(self) -> tirx.PrimFunc:
        product, layout = self.product, self.layout
        left_axes = _with_k(self.row_axes, layout.left)
        right_axes = _with_k(self.column_axes, layout.right)
        left = self._buffer(LEFT, left_axes, product.left.dtype)
        right = self._buffer(RIGHT, right_axes, product.right.dtype)
        own = self.own_axes
        sums = self._buffer(SUMS, own, layout.sums)

        def term(at: At) -> tirx.Stmt:
            place = [at[axis] for axis in own]
            factors = (
                tirx.BufferLoad(left, [at[axis] for axis in left_axes]),
                tirx.BufferLoad(right, [at[axis] for axis in right_axes]),
            )
            a, b = (f if str(f.ty.dtype) == layout.sums else f.astype(layout.sums) for f in factors)
            return tirx.BufferStore(sums, tirx.BufferLoad(sums, place) + a * b, place)

        def zero(at: At) -> tirx.Stmt:
            return tirx.BufferStore(sums, tirx.FloatImm(layout.sums, 0.0), [at[axis] for axis in own])

        made = [
            self._block(LEFT, left_axes, self._copied(left, product.left)),
            self._block(RIGHT, right_axes, self._copied(right, product.right)),
            self._block(SUMS, [*own, "k"], term, zero),
        ]
        buffers = [left, right, sums]
        if layout.parts == 1:
            made.append(self._block(RESULT, own, self._result(sums)))
        else:
            exact = [self.sizes["s"], product.i.extent, product.j.extent]
            parts = tirx.decl_buffer(exact, layout.sums, "parts")
            buffers.append(parts)
            made += [self._block(RESULT, own, self._parts(sums, parts)), self._total(parts)]
        root = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(made), alloc_buffers=buffers)
        return self.plain.with_body(s_tir.SBlockRealize([], True, root))

    @property
    def own_axes(self) -> list[str]:
        """The axes of sums, the last factors of rows and columns innermost."""
        *rows, row = self.row_axes
        *columns, column = self.column_axes
        return ["s", *rows, *columns, row, column]

    @property
    def row_axes(self) -> list[str]:
        return [f"i{at}" for at in range(len(self.layout.rows) + 1)]

    @property
    def column_axes(self) -> list[str]:
        return [f"j{at}" for at in range(len(self.layout.columns) + 1)]

    @cached_property
    def sizes(self) -> dict[str, tirx.Expr]:
        """The sizes of axes; that of k is of one part of the sums."""
        product, layout = self.product, self.layout
        found = {
            "s": Analyzer().simplify(product.s.extent * layout.parts),
            "k": _tiles(product.k.extent, layout.step * layout.parts) * layout.step,
        }
        for axes, factors, extent in (
            (self.row_axes, layout.rows, product.i.extent),
            (self.column_axes, layout.columns, product.j.extent),
        ):
            sizes = [_tiles(extent, math.prod(factors)), *(tirx.IntImm("int64", factor) for factor in factors)]
            found |= zip(axes, sizes, strict=True)
        return found

    def _buffer(self, name: str, axes: Iterable[str], dtype: str) -> tirx.Buffer:
        return tirx.decl_buffer([self.sizes[axis] for axis in axes], dtype, name)

    def _block(self, name: str, axes: Sequence[str], body: Statement, init: Statement | None = None) -> tirx.Stmt:
        return _block(name, {axis: self.sizes[axis] for axis in axes}, body, init)

    def _place(self, at: At, axis: str) -> tirx.Expr:
        """Return the index along i or j of a place within tiles."""
        factors = self.layout.rows if axis == "i" else self.layout.columns
        index = at[f"{axis}0"]
        for number, factor in enumerate(factors, 1):
            index = index * factor + at[f"{axis}{number}"]
        return index

    def _copied(self, buffer: tirx.Buffer, operand: Operand) -> Statement:
        """Return how an element of an operand gets into a tile: as zero from outside of it."""
        product, layout = self.product, self.layout
        axis = "i" if operand is product.left else "j"

        def store(at: At) -> tirx.Stmt:
            batch, k, whole = at["s"], at["k"], self.sizes["k"] * layout.parts
            if layout.parts > 1:
                k = tirx.floormod(batch, layout.parts) * self.sizes["k"] + k
                batch = tirx.floordiv(batch, layout.parts)
            other = self._place(at, axis)
            conditions = self._within(other, axis, operand.width if operand.along == axis else 1)
            if not Analyzer().can_prove_equal(whole, product.k.extent):
                conditions += _less(k, product.k.extent, operand.width if operand.along == "k" else 1)
            value = operand.value
            if is_choice(value) and _is_zero(value.args[2]):
                conditions.append(value.args[0])
                value = value.args[1]
            if conditions:
                value = tirx.if_then_else(tirx.all(*conditions), value, tirx.FloatImm(operand.dtype, 0.0))
            places = product.s.places(batch) | getattr(product, axis).places(other) | product.k.places(k)
            return tirx.BufferStore(buffer, replaced(value, places), list(at.values()))

        return store

    def _within(self, index: tirx.Expr, axis: str, width: int) -> list[tirx.Expr]:
        """Return the condition that an index along i or j is inside, if some of the tiles' are not."""
        extent = getattr(self.product, axis).extent
        factors = self.layout.rows if axis == "i" else self.layout.columns
        if Analyzer().can_prove_equal(self.sizes[f"{axis}0"] * math.prod(factors), extent):
            return []
        return _less(index, extent, width)

    def _guarded(self, at: At, made: Callable[[tirx.Expr, tirx.Expr], tirx.Stmt]) -> tirx.Stmt:
        """Return a store of a result for a row and a column that is left out outside of it."""
        row, column = self._place(at, "i"), self._place(at, "j")
        conditions = self._within(row, "i", 1) + self._within(column, "j", self.product.width)
        store = made(row, column)
        return tirx.IfThenElse(tirx.all(*conditions), store, None) if conditions else store

    def _result(self, sums: tirx.Buffer) -> Statement:
        def store(at: At) -> tirx.Stmt:
            total = tirx.BufferLoad(sums, list(at.values()))
            return self._guarded(at, lambda row, column: self._final(at["s"], row, column, total))

        return store

    def _parts(self, sums: tirx.Buffer, parts: tirx.Buffer) -> Statement:
        def store(at: At) -> tirx.Stmt:
            total = tirx.BufferLoad(sums, list(at.values()))
            return self._guarded(at, lambda row, column: tirx.BufferStore(parts, total, [at["s"], row, column]))

        return store

    def _total(self, parts: tirx.Buffer) -> tirx.Stmt:
        """Return the block that adds up the parts of sums."""
        product, count = self.product, self.layout.parts

        def store(at: At) -> tirx.Stmt:
            row, column = at["i"], at["j"]
            loads = [tirx.BufferLoad(parts, [at["s"] * count + part, row, column]) for part in range(count)]
            return self._final(at["s"], row, column, sum(loads[1:], loads[0]))

        return _block(TOTAL, {axis: getattr(product, axis).extent for axis in "sij"}, store)

    def _final(self, batch: tirx.Expr, row: tirx.Expr, column: tirx.Expr, total: tirx.Expr) -> tirx.Stmt:
        """Return the store of a result for a sum."""
        product = self.product
        if str(total.ty.dtype) != product.dtype:
            total = total.astype(product.dtype)
        places = product.s.places(batch) | product.i.places(row) | product.j.places(column)
        value, indices = replaced(product.write(total), places), [replaced(i, places) for i in product.indices]
        return tirx.BufferStore(product.result, value, indices)


def _with_k(axes: Sequence[str], where: str) -> list[str]:
    at = {"outer": 0, "between": len(axes) - 1, "inner": len(axes)}[where]
    return ["s", *axes[:at], "k", *axes[at:]]


def _tiles(extent: tirx.Expr, size: int) -> tirx.Expr:
    """Return how many tiles of a size there are, the last one perhaps not whole."""
    return Analyzer().simplify(tirx.floordiv(extent + (size - 1), size))


def _less(index: tirx.Expr, extent: tirx.Expr, width: int) -> list[tirx.Expr]:
    """Return the condition that an index is less than an extent.

    Where elements are read several at a time, all of them are inside or none is: said so, it is one condition.
    """
    if width > 1:
        index, extent = tirx.floordiv(index, width), tirx.floordiv(extent, width)
    return [index < extent]


def _is_zero(value: tirx.Expr) -> bool:
    return isinstance(value, tirx.FloatImm) and value.value == 0


def _block(name: str, sizes: At, body: Statement, init: Statement | None = None) -> tirx.Stmt:
    """Return a block with a loop for each of its axes; it sums over the last one if it has an initial value."""
    zero, own = tirx.IntImm("int64", 0), {}
    for axis, size in sizes.items():
        is_summed = init is not None and axis == list(sizes)[-1]
        kind = tirx.IterVar.CommReduce if is_summed else tirx.IterVar.DataPar
        own[axis] = tirx.IterVar(Range(zero, size), tirx.Var(f"v{axis}", "int64"), kind)
    at = {axis: each.var for axis, each in own.items()}
    stored, start = body(at), None if init is None else init(at)
    reads, writes = accesses(stored)
    loops = {axis: tirx.Var(f"{name}_{axis}", "int64") for axis in sizes}
    block = s_tir.SBlock(list(own.values()), reads, writes, name, stored, start)
    made: tirx.Stmt = s_tir.SBlockRealize(list(loops.values()), True, block)
    for axis in reversed(list(sizes)):
        made = tirx.For(loops[axis], zero, sizes[axis], tirx.ForKind.SERIAL, made)
    return made
