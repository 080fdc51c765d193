"""The instructions of a product of integers, written into TIR's builder: on vectors, and on tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm.script import tirx as E
from tvm.script.ir_builder import tirx as T

from ..target.integer_unit import IntegerUnit
from .integer_weight import BLOCK
from .storage import held, register
from .tile_code import evaluate, loop
from .tile_plan import int64

__all__ = ["TILE", "Operands", "emit_tiles", "emit_vectors", "held"]

TILE = 16
"""How many positions, or outputs, a tile has; a row of it is 64 bytes of the data or of the weight."""
_CHAINS = 6  # sums that wait for each other: fewer would leave the multipliers idle


@dataclass(frozen=True)
class Operands:
    """What is multiplied for some positions and a block of outputs.

    Attributes
    ----------
    data, weight : buffer
        The numbers of the data and of the packed weight, each in one axis.
    start : expression
        Where the first position's numbers are.
    step : int
        How far the next position's are.
    panel : expression
        Where the weights of the block of outputs are.
    runs : tuple of int
        Rows and columns of runs.
    groups : int
        How many groups of numbers a run has.
    offset : callable
        Takes a row and a column, and returns how far from a position's place the run begins.
    """

    data: Any
    weight: Any
    start: Any
    step: int
    panel: Any
    runs: tuple[int, int]
    groups: int
    offset: Callable[[Any, Any], Any]


def emit_vectors(unit: IntegerUnit, o: Operands, sums: Any, rows: int) -> None:
    """Write the sums of some positions, a block of outputs each, by instructions on vectors."""
    vectors = range(BLOCK // unit.lanes)
    per_step = next(n for n in (4, 2, 1) if o.groups % n == 0)
    chains = min(per_step, -(-_CHAINS // (rows * len(vectors))))
    totals = [[[_vector(unit) for _ in vectors] for _ in range(rows)] for _ in range(chains)]
    with loop(o.runs[0]) as row, loop(o.runs[1]) as column:
        begin = held(o.start + o.offset(row, column))
        panel = held(o.panel + (row * o.runs[1] + column) * (o.groups * BLOCK * unit.group))
        with loop(o.groups // per_step) as outer:
            for inner in range(per_step):
                group, numbers = held(outer * per_step + inner), unit.lanes * unit.group
                places = [panel + group * (BLOCK * unit.group) + v * numbers for v in vectors]
                weights = [T.Bind(o.weight[E.Ramp(at, E.int64(1), numbers)]) for at in places]
                for position in range(rows):
                    four = _group(unit, o.data, begin + group * unit.group + position * o.step)
                    for v in vectors:
                        total = totals[inner % chains][position][v]
                        T.buffer_store(total, _multiplied(unit, total[0], four, weights[v]), [int64(0)])
    for position in range(rows):
        for v in vectors:
            value = totals[0][position][v][0]
            for chain in totals[1:]:
                value = value + chain[position][v][0]
            first = int64(position * BLOCK + v * unit.lanes)
            T.buffer_store(sums, value, [E.Ramp(first, int64(1), unit.lanes)])


def emit_tiles(o: Operands, sums: Any, high: int) -> None:
    """Write the sums of one or two tiles of positions, by two tiles of outputs."""
    steps = o.groups // TILE
    for tile in range(2 * high):
        evaluate("tilezero", E.int8(tile))
    with loop(o.runs[0]) as row, loop(o.runs[1]) as column:
        begin = held(o.start + o.offset(row, column))
        panel = held(o.panel + (row * o.runs[1] + column) * (o.groups * BLOCK * 4))
        with loop(steps) as step:
            for m in range(high):
                _load(4 + m, o.data[begin + step * (4 * TILE) + m * TILE * o.step], o.step)
            for n in range(2):
                _load(6 + n, o.weight[panel + step * (4 * TILE * BLOCK) + n * (4 * TILE)], 4 * BLOCK)
            for m in range(high):
                for n in range(2):
                    evaluate("tdpbusd", E.int8(2 * m + n), E.int8(4 + m), E.int8(6 + n))
    for tile in range(2 * high):
        at = tile // 2 * TILE * BLOCK + tile % 2 * TILE
        evaluate("tilestored64", E.int8(tile), E.address_of(sums[at]), E.int64(BLOCK * 4))


def _load(tile: int, element: Any, stride: int) -> None:
    evaluate("tileloadd64", E.int8(tile), E.address_of(element), E.int64(stride))


def _vector(unit: IntegerUnit) -> Any:
    total = register(unit.lanes, "int32")
    T.buffer_store(total, E.Broadcast(E.int32(0), unit.lanes), [int64(0)])
    return total


def _group(unit: IntegerUnit, data: Any, at: Any) -> Any:
    """Return a group of a position's numbers in every lane of a vector."""
    four = E.reinterpret("int32", data[E.Ramp(at, E.int64(1), unit.group)])
    dtype, _ = unit.dtypes
    return T.Bind(E.reinterpret(f"{dtype}x{unit.lanes * unit.group}", E.Broadcast(four, unit.lanes)))


def _multiplied(unit: IntegerUnit, total: Any, data: Any, weight: Any) -> Any:
    dtype = f"int32x{unit.lanes}"
    if unit.group == 4:
        return E.call_llvm_pure_intrin(dtype, unit.intrinsic, total, data, weight)
    return total + E.call_llvm_pure_intrin(dtype, unit.intrinsic, data, weight)
