"""The instructions of a product of integers: on vectors, and on AMX tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from ..._dataclasses import dataclass
from ...target.integer_unit import IntegerUnit
from ..builder import (
    Size,
    T,
    add_to,
    broadcast,
    fetch_ahead,
    in_register,
    integer,
    loop,
    ramp,
    register,
    reinterpreted,
    splat,
)
from .amx import clear_tiles, dot_tiles, load_tile, store_tile
from .shape import BLOCK, TILE
from .sizes import divided

__all__ = ["Again", "Operands", "emit_tiles", "emit_vectors", "multiply_groups", "start_sum"]

_CHAINS = 6  # sums that wait for each other: fewer would leave the multipliers idle


@dataclass(frozen=True)
class Again:
    """Groups of inputs that are multiplied once more, with other weights.

    Attributes
    ----------
    count : expression
        How many there are.
    group : callable
        Takes the number of one, and returns how far from a position's place it is, and where its weights are.
    """

    count: Size
    group: Callable[[tirx.Expr], tuple[Size, Size]]


@dataclass(frozen=True)
class Operands:
    """What is multiplied for some positions and a block of outputs.

    Attributes
    ----------
    data, weight : buffer
        The numbers of the data and of the packed weight, each in one axis. A weight of narrower integers than the
        instruction takes is widened in registers.
    start : expression
        Where the first position's numbers are.
    step : size
        How far the next position's are.
    panel : expression
        Where the weights of the block of outputs are.
    block : int
        How many outputs it has.
    runs : tuple of int
        Rows and columns of runs.
    groups : size
        How many groups of numbers a run has.
    steps : int
        How many of them a sum goes over at a time; see :func:`.steps_of`.
    offset : callable
        Takes a row and a column, and returns how far from a position's place the run begins.
    again : Again or None
        What is multiplied once more.
    is_ahead : bool
        Whether the data of as many positions behind these are fetched meanwhile.
    """

    data: tirx.Buffer
    weight: tirx.Buffer
    start: Size
    step: Size
    panel: Size
    block: int
    runs: tuple[int, int]
    groups: Size
    steps: int
    offset: Callable[[Size, Size], Size]
    again: Again | None = None
    is_ahead: bool = False


def emit_vectors(unit: IntegerUnit, o: Operands, sums: tirx.Buffer, rows: int) -> None:
    """Write the sums of some positions, a block of outputs each, as vectors, by instructions on vectors."""
    vectors = range(o.block // unit.lanes)
    # More steps between jumps, and LLVM would add products to each other, for whose sums no registers are left.
    per_step = 1 if unit.adds_in_vectors and unit.registers == 16 else o.steps
    chains = min(per_step, -(-_CHAINS // (rows * len(vectors))))
    totals = [[[start_sum(unit) for _ in vectors] for _ in range(rows)] for _ in range(chains)]
    with loop(o.runs[0]) as row, loop(o.runs[1]) as column:
        begin = in_register(o.start + o.offset(row, column))
        panel = in_register(o.panel + (row * o.runs[1] + column) * (o.groups * o.block * unit.group))
        with loop(divided(o.groups, per_step)[0]) as outer:
            for inner in range(per_step):
                group = in_register(outer * per_step + inner)
                places = begin + group * unit.group, panel + group * (o.block * unit.group)
                _multiply(unit, o, places, totals[inner % chains])
                # A line of a position serves several steps; each of these fetches those of some positions.
                for position in range(inner, rows if o.is_ahead else 0, per_step):
                    fetch_ahead(o.data[begin + outer * (per_step * unit.group) + (rows + position) * o.step], cache=1)
    if o.again is not None:
        with loop(o.again.count) as number:
            offset, weights = o.again.group(number)
            _multiply(unit, o, (o.start + offset, weights), totals[0])
    for position in range(rows):
        for v in vectors:
            value = totals[0][position][v][0]
            for chain in totals[1:]:
                value = value + chain[position][v][0]
            T.buffer_store(sums, value, [integer(position * len(vectors) + v)])


def _multiply(
    unit: IntegerUnit, o: Operands, places: tuple[Size, Size], totals: Sequence[Sequence[tirx.Buffer]]
) -> None:
    """Add the products of a group of inputs, from places in the data and in the weight on, for some positions."""
    (begin, panel), numbers = places, unit.lanes * unit.group
    dtype = f"{unit.dtypes[1]}x{numbers}"
    weights = [T.Bind(o.weight[ramp(panel + v * numbers, numbers)].astype(dtype)) for v in range(o.block // unit.lanes)]
    for position, of_position in enumerate(totals):
        group = _group(unit, o.data, begin + position * o.step)
        for total, weight in zip(of_position, weights, strict=True):
            multiply_groups(unit, total, group, weight)


def emit_tiles(o: Operands, sums: tirx.Buffer, high: int) -> None:
    """Write the sums of one or two tiles of positions, by two tiles of outputs."""
    clear_tiles(2 * high)
    with loop(o.runs[0]) as row, loop(o.runs[1]) as column:
        begin = in_register(o.start + o.offset(row, column))
        panel = in_register(o.panel + (row * o.runs[1] + column) * (o.groups * BLOCK * 4))
        with loop(divided(o.groups, TILE)[0]) as step:
            for m in range(high):
                load_tile(4 + m, o.data[begin + step * (4 * TILE) + m * TILE * o.step], o.step)
            for n in range(2):
                load_tile(6 + n, o.weight[panel + step * (4 * TILE * BLOCK) + n * (4 * TILE)], 4 * BLOCK)
            for m in range(high):
                for n in range(2):
                    dot_tiles("tdpbusd", 2 * m + n, 4 + m, 6 + n)
    for tile in range(2 * high):
        store_tile(tile, sums[tile // 2 * TILE * 2 + tile % 2], BLOCK * 4)


def start_sum(unit: IntegerUnit) -> tirx.Buffer:
    """Return a vector of sums in a register, 0 each."""
    total = register(unit.lanes, "int32")
    T.buffer_store(total, splat(0, unit.lanes, "int32"), [integer(0)])
    return total


def _group(unit: IntegerUnit, data: tirx.Buffer, at: Size) -> tirx.Var:
    """Return a group of a position's numbers in every lane of a vector."""
    four = reinterpreted("int32", data[ramp(at, unit.group)])
    dtype, _ = unit.dtypes
    return T.Bind(reinterpreted(f"{dtype}x{unit.lanes * unit.group}", broadcast(four, unit.lanes)))


def multiply_groups(unit: IntegerUnit, total: tirx.Buffer, data: tirx.Var, weight: tirx.Var) -> None:
    """Add the products of groups to a vector of sums."""
    dtype = f"int32x{unit.lanes}"
    if unit.adds_pairs:
        of_pairs, of_words = unit.of_pairs
        pairs = T.call_llvm_pure_intrin(f"int16x{2 * unit.lanes}", of_pairs, data, weight)
        add_to(total, T.call_llvm_pure_intrin(dtype, of_words, pairs, splat(1, 2 * unit.lanes, "int16")))
    elif unit.group == 4:
        added = T.call_llvm_pure_intrin(dtype, unit.intrinsic, total[0], data, weight)
        T.buffer_store(total, added, [integer(0)])
    else:
        add_to(total, T.call_llvm_pure_intrin(dtype, unit.intrinsic, data, weight))
