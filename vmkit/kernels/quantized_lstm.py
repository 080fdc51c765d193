"""A layer of long short-term memory on a CPU whose hidden states are quantised anew at each step.

The state of a step, of all rows of the batch, is mapped to uint8 by the range of its values, 0 included, as ONNX's
DynamicQuantizeLinear does; its products with an int8 weight are summed up exactly in int32. Where instructions multiply
int16 alone, weights are still read as int8 and widened in registers: each is used for a row or two of a step, so that
what it takes to read it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from tvm import tirx

from ..relay.op.saturation import nearest
from ..target.integer_unit import IntegerUnit
from .builder import (
    Size,
    T,
    broadcast,
    constant,
    either,
    in_parallel,
    in_register,
    integer,
    kernel,
    local,
    loop,
    ramp,
    register,
    when,
    zeros,
)
from .integer_matrices import NEEDS_UNIT
from .lstm import LSTMRows, LSTMShape
from .packed_product.integer_code import Operands, emit_vectors
from .packed_product.shape import steps_of
from .recurrent_code import put, set_rows, unit_of
from .recurrent_layer import Tile
from .recurrent_loops import Part, for_steps
from .recurrent_tiles import RecurrentTiles

__all__ = ["quantized_lstm"]

_GATES = 4
_RANGE = 0, 255  # of uint8
_SHARED = 3 << 19  # products of a step that repay waking other threads
_SHARES = 8  # parts of the hidden units that threads share


def quantized_lstm(shape: LSTMShape, group: int) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer whose rows all have all steps.

    It takes what :func:`.lstm` does, but for the weight: integers in blocks (blocks, groups, gates, lanes, group), of
    which a group is as many hidden states as an instruction multiplies for a sum; and for each block, gate and lane a
    factor, and the sum of all its integers. Vectors have as many int32 as float32. It gives what :func:`.lstm` gives.
    """
    hidden, lanes, blocks = shape.hidden, shape.lanes, shape.blocks
    groups = -(-hidden // group)
    with kernel() as builder:
        steps, batch = tirx.Var("steps", "int64"), tirx.Var("batch", "int64")
        shapes: dict[str, list[Size]] = {
            "data": [steps, batch, _GATES * hidden],
            "weight": [blocks * groups * _GATES * lanes * group],
            "factors": [blocks * _GATES * lanes],
            "totals": [blocks * _GATES * lanes],
            "first_state": [batch, hidden],
            "first_cell": [batch, hidden],
            **({"peephole": [3 * hidden]} if shape.has_peepholes else {}),
            "out": [steps, batch, hidden],
            "state": [batch, hidden],
            "cell": [batch, hidden],
        }
        of = {"weight": [blocks, groups, _GATES, lanes, group]}
        of |= {name: [blocks, _GATES, lanes] for name in ("factors", "totals")}
        types = {"weight": "int8", "totals": "int32"}
        tensors = {}
        for name, dims in shapes.items():
            handle, dtype = T.arg(name, T.handle()), types.get(name, "float32")
            tensors[name] = T.match_buffer(handle, of.get(name, dims), dtype, layout=None)
        for name in of:
            tensors[name] = T.decl_buffer(
                shapes[name], types.get(name, "float32"), data=tensors[name].data, layout=None
            )
        most = tirx.Max(batch, integer(1))
        cells = T.alloc_buffer((most, blocks, lanes), "float32", layout=None)
        tile = Tile(tensors, integer(0), batch, RecurrentTiles.of(lanes, blocks, _GATES), None)
        unit = IntegerUnit(lanes, group, 32 if tile.tiles.is_wide else 16)
        quanta = T.alloc_buffer((most * groups * group,), unit.dtypes[0], layout=None)
        set_rows(tensors["state"], tile.first, batch, tensors["first_state"])
        rows = _Rows(shape, tile, cells, unit, quanta)
        for_steps(steps, shape.is_reverse, rows.all_rows)
        rows.finish()
    return builder.get().with_attr(NEEDS_UNIT, [lanes, group])


class _Rows(LSTMRows):
    """All rows of a batch, whose states are quantised together."""

    def __init__(
        self, shape: LSTMShape, tile: Tile, cells: tirx.Buffer, unit: IntegerUnit, quanta: tirx.Buffer
    ) -> None:
        super().__init__(shape, tile, cells)
        self._multiplier, self._quanta, self._groups = unit, quanta, -(-shape.hidden // unit.group)
        # Threads write blocks of their own.
        self._gate_sums = T.alloc_buffer((cells.shape[0], shape.blocks, _GATES, shape.lanes), "float32", layout=None)

    @property
    def _depth(self) -> int:
        """How many integers a row of states is filled up to."""
        return self._groups * self._multiplier.group

    def all_rows(self, t: tirx.Expr) -> None:
        """Write a step of all rows."""
        s, batch = self._shape, self._tile.count
        scale, zero = self._quantize()
        size = -(-s.blocks // _SHARES)

        def share(first: tirx.Expr, last: tirx.Expr, is_backward: tirx.Expr) -> None:
            with loop(last - first) as number:
                block = in_register(tirx.Select(is_backward, last - 1 - number, first + number))
                self._for_parts(lambda part: self._sums(t, part, block, (scale, zero)))
                # Weights of the next block come from the second cache while gates are computed.
                with loop(batch) as r:
                    self.gates(t, Part(integer(0), integer(0), 1), self._gate_sums, r, block)

        def shared() -> None:
            with in_parallel(-(-s.blocks // size)) as number:
                first = T.Bind(number * size)
                share(first, T.Bind(tirx.min(first + size, integer(s.blocks))), tirx.const(False, "bool"))

        # Steps that go there and back find the weights that the step before them used last in the nearest cache.
        def alone() -> None:
            share(integer(0), integer(s.blocks), t % 2 == 1)

        either(batch * (_GATES * s.hidden * s.hidden) >= _SHARED, shared, alone)

    def _quantize(self) -> tuple[tirx.Expr, tirx.Expr]:
        """Quantise the states; return the scale, and the zero point as an int32."""
        s, batch, state = self._shape, self._tile.count, self._tensors["state"]
        most, least = register(s.lanes), register(s.lanes)
        for total in (most, least):
            T.buffer_store(total, zeros(s.lanes), [integer(0)])
        with loop(batch) as r, loop(s.blocks) as block:
            value = T.Bind(state[r, ramp(unit_of(block, s.hidden, s.lanes), s.lanes)])
            T.buffer_store(most, tirx.max(most[0], value), [integer(0)])
            T.buffer_store(least, tirx.min(least[0], value), [integer(0)])
        largest, smallest = (_across(v, s.lanes, f) for v, f in ((most, tirx.max), (least, tirx.min)))
        step = (largest - smallest) / constant(255.0)
        scale = T.Bind(tirx.Select(largest == smallest, constant(1.0), step))
        zero = T.Bind(nearest((constant(0.0) - smallest) / scale, tirx.const(0, "uint8"), *_RANGE))
        with loop(batch) as r, loop(s.blocks) as block:
            unit = in_register(unit_of(block, s.hidden, s.lanes))
            put(s.lanes, self._quanta, (r * self._depth + unit,), lambda i: (
                nearest(state[r, unit + i] / scale, zero, *_RANGE).astype(self._multiplier.dtypes[0])
            ))  # fmt: skip
        return scale, T.Bind(zero.astype("int32"))

    def _for_parts(self, run: Callable[[Part], None]) -> None:
        """Run ``run(part)`` for all rows of the batch, in as few parts as there are sizes for."""
        batch, (most, *fewer) = self._tile.count, self._tile.tiles.rows
        with loop(batch // most) as number:
            row = T.Bind(number * most)
            run(Part(row, row, most))
        for rows in fewer:
            with when(batch % most == rows):
                row = T.Bind(batch - rows)
                run(Part(row, row, rows))

    def _sums(self, t: tirx.Expr, part: Part, block: tirx.Expr, quantum: tuple[tirx.Expr, tirx.Expr]) -> None:
        """Write the sums of the gates of a block of hidden units for the rows of a part."""
        s, tensors, (scale, zero) = self._shape, self._tensors, quantum
        lanes, dtype = s.lanes, f"int32x{s.lanes}"
        totals = local(part.rows * _GATES, dtype=dtype)
        operands = Operands(
            self._quanta,
            tensors["weight"],
            in_register(part.row * self._depth),
            self._depth,
            in_register(block * (self._depth * _GATES * lanes)),
            _GATES * lanes,
            (1, 1),
            self._groups,
            steps_of(self._groups),
            lambda _row, _column: integer(0),
        )
        emit_vectors(self._multiplier, operands, totals, part.rows)
        unit = in_register(unit_of(block, s.hidden, lanes))
        with T.unroll(_GATES) as gate:
            of_gate = ramp((block * _GATES + gate) * lanes, lanes)
            less = T.Bind(broadcast(zero, lanes) * tensors["totals"][of_gate])
            factor = T.Bind(broadcast(scale, lanes) * tensors["factors"][of_gate])
            with T.unroll(part.rows) as r:
                product = tirx.Cast(f"float32x{lanes}", totals[r * _GATES + gate] - less) * factor
                data = tensors["data"][t, part.row + r, ramp(gate * s.hidden + unit, lanes)]
                T.buffer_store(self._gate_sums, data + product, [part.row + r, block, gate, ramp(integer(0), lanes)])


def _across(vector: tirx.Buffer, lanes: int, of: Callable[[tirx.Expr, tirx.Expr], tirx.Expr]) -> tirx.Expr:
    """Return the largest or the smallest lane of a vector in a register."""
    numbers = local(lanes)
    T.buffer_store(numbers, vector[0], [ramp(integer(0), lanes)])
    values: Sequence[tirx.Expr] = [numbers[lane] for lane in range(lanes)]
    while len(values) > 1:
        values = [T.Bind(reduce(of, pair)) for pair in zip(values[::2], values[1::2], strict=True)]
    return values[0]
