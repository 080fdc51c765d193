"""Tiles of lines of depthwise convolutions: what they read once, how large they are, and lines of padded copies."""

from __future__ import annotations

import pytest
import tvm
from tvm import te, tirx, topi

from vmkit.schedule.blocks import kernel_blocks
from vmkit.schedule.cpu import prepared
from vmkit.schedule.cpu.padded_line import PaddedLine, padded_line_of
from vmkit.schedule.cpu.shared_lines import LineWindows, line_tile
from vmkit.target.processor import processor_of
from vmkit.target.vectors import VectorUnit

AVX2, AVX512 = (processor_of(tvm.target.Target({"kind": "llvm", "mcpu": cpu})).vectors for cpu in ("znver3", "znver4"))


def windows(size: int, step: int = 1, image: int = 56) -> LineWindows:
    return LineWindows(image // step, image // step, size, size, step, 1, step)


def test_a_line_is_read_once_for_all_that_need_it() -> None:
    assert windows(3).uses(2) == {0: [(0, 0)], 1: [(0, 1), (1, 0)], 2: [(0, 2), (1, 1)], 3: [(1, 2)]}
    assert windows(3, step=2).uses(2) == {0: [(0, 0)], 1: [(0, 1)], 2: [(0, 2), (1, 0)], 3: [(1, 1)], 4: [(1, 2)]}


@pytest.mark.parametrize("unit", [AVX2, AVX512])
@pytest.mark.parametrize(("size", "step"), [(3, 1), (7, 1), (5, 2), (3, 2)])
def test_tiles_fit_registers_beside_a_column_of_weights(unit: VectorUnit, size: int, step: int) -> None:
    tile = line_tile(windows(size, step), unit.lanes, unit)
    assert tile is not None
    lines, vectors = tile
    assert lines > 1 and (lines + 1) * vectors + size <= unit.registers
    if (size, step) == (3, 2):
        assert lines * vectors <= 6


def test_windows_that_leave_no_room_or_one_line_have_no_tile() -> None:
    assert line_tile(windows(15), 8, AVX2) is None
    assert line_tile(LineWindows(1, 56, 3, 3, 1, 1, 1), 16, AVX512) is None


def padded(width: int, before: int, after: int) -> PaddedLine | None:
    x = te.placeholder([tirx.IntImm("int64", d) for d in (3, width)], name="x")
    plain = prepared(te.create_prim_func([x, topi.nn.pad(x, [1, before], [1, after], 2.5)]))
    assert plain is not None
    return padded_line_of(plain.get(kernel_blocks(plain)[0]), 16)


@pytest.mark.parametrize(
    ("width", "before", "after", "lanes"), [(16, 1, 1, 16), (37, 0, 3, 16), (5, 2, 0, 4), (300, 4, 4, 16)]
)
def test_what_a_padded_line_copies(width: int, before: int, after: int, lanes: int) -> None:
    line = padded(width, before, after)
    assert line is not None
    assert (line.size, line.first, line.end, line.lanes) == (before + width + after, before, before + width, lanes)
    assert len(line.tests) == 2


def test_a_line_of_one_element_has_no_vectors() -> None:
    assert padded(1, 2, 2) is None
