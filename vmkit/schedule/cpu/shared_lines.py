"""Depthwise convolutions with channels first: tiles of several lines, whose windows share the lines of data they read.

A vector of a line of data is read once for each step along the line, and goes to all results of the tile whose windows
have it, times the weights of a column of the window, which stay in registers. Read once for every product, unaligned as
they are, vectors would take longer to come than to be multiplied.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx

from ..._dataclasses import dataclass
from ...kernels.builder import Size, T, broadcast, in_register, integer, local, loop, ramp, zeros
from ...target.processor import CACHES
from ...target.vectors import VectorUnit
from ..expressions import known, stride, uses
from .convolution_kernel import ConvolutionKernel
from .products import MOST_VECTORS

__all__ = ["LineWindows", "emit_lines", "line_tile", "line_windows_of", "lines_fit"]

_WRITTEN_OUT = 160  # the most products of a tile of which all columns of the window are written out
_SMALL = 9  # steps of a window that are all written out
_FEW = 6  # vectors of sums that fit beside what is shuffled for all of these
_LATENCY = 4  # cycles until a sum may be added to again


@dataclass(frozen=True)
class LineWindows:
    """The windows of one channel.

    Attributes
    ----------
    lines, line : int
        How many lines of results there are, and how many results in one.
    height, width : int
        Steps of the window, across lines and along them.
    step, apart : int
        How many lines of data lie from one line of results to the next, and from one step of the window to the next.
    spacing : int
        How many elements of data lie from one result to the next.
    """

    lines: int
    line: int
    height: int
    width: int
    step: int
    apart: int
    spacing: int

    def uses(self, lines: int) -> dict[int, list[tuple[int, int]]]:
        """Return for each line of data that a tile of so many lines reads which lines of it need it, at which step."""
        found: dict[int, list[tuple[int, int]]] = {}
        for at in range(lines):
            for step in range(self.height):
                found.setdefault(at * self.step + step * self.apart, []).append((at, step))
        return dict(sorted(found.items()))


def line_windows_of(kernel: ConvolutionKernel) -> LineWindows | None:
    """Return the windows of a depthwise convolution over images of known sizes; None of any other."""
    spatial = kernel.found.spatial
    variables, sizes = [v.var for v in kernel.node.iter_vars], kernel.sizes[kernel.row + 1 :]
    if kernel.of_group != 1 or kernel.is_flat or len(kernel.positions) != 2:
        return None
    lines, line, channels, height, width = map(known, sizes)
    across = next((i for i in kernel.data.indices if uses(i, variables[spatial - 2])), None)
    if channels != 1 or across is None or not (lines and line and height and width):
        return None
    step, apart = stride(across, variables[spatial - 2]), stride(across, variables[spatial + 1])
    if height == 1 or not step or not apart or min(step, apart) < 1:
        return None
    return LineWindows(lines, line, height, width, step, apart, kernel.spacing)


def line_tile(windows: LineWindows, lanes: int, unit: VectorUnit) -> tuple[int, int] | None:
    """Return lines and vectors of the tile that takes the fewest cycles; None where windows share too little."""
    across = -(-windows.line // lanes)
    loads = 1 + lanes * 4 / CACHES.line  # of a vector that begins anywhere: some lie in two lines of the cache
    vector = windows.spacing * loads + 2 * (windows.spacing - 1)

    def cycles(lines: int, vectors: int) -> float:
        products = lines * vectors * windows.height
        read = len(windows.uses(lines)) * vectors * vector + windows.height
        waits = _LATENCY * products / (lines * vectors)
        return -(-windows.lines // lines) * -(-across // vectors) * (max(products, read, 2 * waits) / 2 + 1)

    tiles = [
        (lines, vectors)
        for lines in range(2, windows.lines + 1)
        for vectors in range(1, min(across, MOST_VECTORS) + 1)
        if lines_fit(windows, lines, vectors, unit)
    ]
    best = min(tiles, key=lambda tile: (cycles(*tile), tile), default=None)
    # As many vectors as the line has are no more than those that it takes, in blocks of as many.
    return best if best is not None and cycles(*best) < cycles(1, min(across, MOST_VECTORS)) else None


def lines_fit(windows: LineWindows, lines: int, vectors: int, unit: VectorUnit) -> bool:
    """Say whether a tile fits into the registers, beside a line of data and a column of the window."""
    is_shuffled = windows.spacing > 1 and windows.height * windows.width <= _SMALL
    is_small = not is_shuffled or lines * vectors <= _FEW
    return is_small and lines <= windows.lines and lines * vectors + vectors + windows.height <= unit.registers


def emit_lines(
    windows: LineWindows,
    tile: tuple[int, int],
    lanes: int,
    read: Callable[[Size, Size, int, Size], tirx.Expr],
    weight: Callable[[Size], tirx.Expr],
    finish: Callable[[Size, Size, tirx.Expr], None],
) -> None:
    """Write the loops over the results of one channel into the builder at hand.

    Parameters
    ----------
    windows : LineWindows
        What is computed.
    tile : tuple of int
        Lines and vectors of a tile.
    lanes : int
        Elements of a vector; a line has as many.
    read : callable
        ``read(line, column, across, along)`` returns the vector of data that results of a line, from a column on, have
        at a step of their windows.
    weight : callable
        ``weight(k)`` returns an element of the window, counted line by line.
    finish : callable
        ``finish(line, column, sums)`` writes what becomes of a vector of sums.
    """
    lines, vectors = tile
    across = -(-windows.line // lanes)
    blocks = -(-across // vectors)
    with loop(-(-windows.lines // lines)) as part, loop(blocks) as block:
        first = _start(part * lines, windows.lines, lines)
        columns = [_start((block * vectors + v) * lanes, windows.line, lanes) for v in range(vectors)]
        total = local(integer(lines * vectors * lanes))
        sums = [[ramp(integer((at * vectors + v) * lanes), lanes) for v in range(vectors)] for at in range(lines)]
        for place in (place for of_line in sums for place in of_line):
            T.buffer_store(total, zeros(lanes), [place])

        def add(along: Size) -> None:
            x = [T.Bind(broadcast(weight(k * windows.width + along), lanes)) for k in range(windows.height)]
            for users in windows.uses(lines).values():
                at, step = users[0]
                data = [T.Bind(read(first + at, column, step, along)) for column in columns]
                for at, step in users:
                    for v, vector in enumerate(data):
                        T.buffer_store(total, total[sums[at][v]] + x[step] * vector, [sums[at][v]])

        if lines * vectors * windows.height * windows.width <= _WRITTEN_OUT:
            for along in range(windows.width):
                add(integer(along))
        else:
            with loop(windows.width) as counted:
                add(counted)
        for at, of_line in enumerate(sums):
            for column, place in zip(columns, of_line, strict=True):
                finish(first + at, column, total[place])


def _start(begin: tirx.Expr, size: int, least: int) -> tirx.Expr:
    """Return where a part of an axis begins that is one of many, and ends with the axis at last."""
    return in_register(tirx.Min(begin, integer(size - least)))
