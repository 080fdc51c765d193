"""The step of a layer of long short-term memory on a CPU."""

from __future__ import annotations

from tvm import tirx

from .._dataclasses import dataclass
from .builder import T, constant, local
from .gate_functions import gate_functions, limited, product
from .recurrent_code import add_products, for_blocks, keep_sums, put, start_sums, unit_of
from .recurrent_layer import LayerShape, Tile, layer
from .recurrent_loops import Part, for_rows

__all__ = ["LSTMRows", "LSTMShape", "lstm"]

_INPUT, _OUTPUT, _FORGET, _CELL = range(4)


@dataclass(frozen=True)
class LSTMShape(LayerShape):
    """What is known of a layer of long short-term memory: functions of the gates, the cell's input and its output.

    Attributes
    ----------
    has_peepholes : bool
        Whether the gates add the cell times a vector (3 * hidden,), for input, output, forget.
    input_forget : bool
        Whether the forget gate is 1 less the input gate.
    """

    functions: str = "sigmoid tanh tanh"
    has_peepholes: bool = False
    input_forget: bool = False


def lstm(shape: LSTMShape) -> tirx.PrimFunc:
    """Return the kernel of one direction of a layer, as :func:`.layer` says.

    Its gates are in ONNX's order: input, output, forget, cell. A vector is peephole (3 * hidden,) where there is one;
    states are the hidden state and the cell.
    """
    vectors = {"peephole": 3 * shape.hidden} if shape.has_peepholes else {}
    return layer(shape, 4, vectors, ("state", "cell"), LSTMRows)


class LSTMRows:
    """The rows of a tile, whose cells are kept by blocks of hidden units.

    Parameters
    ----------
    shape : LSTMShape
        The layer.
    tile : Tile
        The rows.
    cells : buffer, optional
        Memory for the cells (rows, blocks, lanes); new memory of one thread where none is given.
    """

    def __init__(self, shape: LSTMShape, tile: Tile, cells: tirx.Buffer | None = None) -> None:
        self._shape, self._tile, self._tensors = shape, tile, tile.tensors
        self._cells = local(tile.most, shape.blocks, shape.lanes) if cells is None else cells
        first_cell = self._tensors["first_cell"]
        with T.serial(tile.count) as r, T.serial(shape.blocks) as block:
            unit = self._unit(block)
            put(shape.lanes, self._cells, (r, block, 0), lambda i: first_cell[tile.first + r, unit + i])

    def step(self, t: tirx.Expr, part: Part) -> None:
        """Write a step of some rows: their states, and those of the step in ``out``."""
        s, tensors, is_backward = self._shape, self._tensors, t % 2 == 1
        sums = local(part.rows, s.blocks, 4, s.lanes)

        def products(block: tirx.Expr, blocks: int) -> None:
            total = local(part.rows, blocks, 4, s.lanes)
            start_sums(total, tensors["data"], t, part.row, block, 4)
            add_products(total, range(4), tensors["state"], part.row, tensors["weight"], block, is_backward)
            keep_sums(sums, total, block)

        def gates(r: tirx.Expr) -> None:
            with T.serial(s.blocks) as block:
                self.gates(t, part, sums, r, block)

        # The whole state is read by the products of every block, so it changes after the last ones. Gates wait long
        # for what they are made of, and less so where those of the next block do not wait for products.
        for_blocks(s.blocks, self._tile.tiles.blocks(part.rows, 4), is_backward, products)
        for_rows(part, t, self._tile.ends, gates)

    def gates(self, t: tirx.Expr, part: Part, sums: tirx.Buffer, r: tirx.Expr, block: tirx.Expr) -> None:
        """Write the cells and the states of a block of hidden units of a row, from the sums of its gates."""
        s, cells, at, row, unit = self._shape, self._cells, part.at + r, part.row + r, self._unit(block)
        f, g, h = gate_functions(s.functions, 3)
        state, out = self._tensors["state"], self._tensors["out"]

        def gate(which: int, i: tirx.Expr) -> tirx.Expr:
            return sums[r, block, which, i]

        def cell(i: tirx.Expr) -> tirx.Expr:
            return cells[at, block, i]

        for which in (_INPUT, _FORGET, _CELL):
            self._adjust(sums, r, block, at, unit, which)
        if s.input_forget:
            put(s.lanes, sums, (r, block, _INPUT, 0), lambda i: f(gate(_INPUT, i)))
            coupled = constant(1.0)
            put(s.lanes, cells, (at, block, 0), lambda i: (
                (coupled - gate(_INPUT, i)) * cell(i) + gate(_INPUT, i) * g(gate(_CELL, i))
            ))  # fmt: skip
        else:
            put(s.lanes, cells, (at, block, 0), lambda i: (
                f(gate(_FORGET, i)) * cell(i) + product(f, gate(_INPUT, i), g, gate(_CELL, i))
            ))  # fmt: skip
        self._adjust(sums, r, block, at, unit, _OUTPUT)
        put(s.lanes, state, (row, unit), lambda i: product(f, gate(_OUTPUT, i), h, cell(i)))
        put(s.lanes, out, (t, row, unit), lambda i: state[row, unit + i])

    def _adjust(
        self,
        sums: tirx.Buffer,
        r: tirx.Expr,
        block: tirx.Expr,
        at: tirx.Expr,
        unit: tirx.Expr,
        gate: int,
    ) -> None:
        """Add what a gate sees of the cell to its sum, and limit that."""
        s, clip = self._shape, self._shape.clip
        if s.has_peepholes and gate != _CELL:
            peephole, begin = self._tensors["peephole"], gate * s.hidden + unit
            put(s.lanes, sums, (r, block, gate, 0), lambda i: (
                sums[r, block, gate, i] + peephole[begin + i] * self._cells[at, block, i]
            ))  # fmt: skip
        if clip is not None:
            put(s.lanes, sums, (r, block, gate, 0), lambda i: limited(sums[r, block, gate, i], clip))

    def finish(self) -> None:
        """Write the last cells."""
        s, tile, cell = self._shape, self._tile, self._tensors["cell"]
        with T.serial(tile.count) as r, T.serial(s.blocks) as block:
            put(s.lanes, cell, (tile.first + r, self._unit(block)), lambda i: self._cells[r, block, i])

    def _unit(self, block: tirx.Expr) -> tirx.Expr:
        return unit_of(block, self._shape.hidden, self._shape.lanes)
