"""The vector unit of a target, and what fits into its registers."""

from __future__ import annotations

import pytest
from tvm.target import Target

from vmkit.target.vectors import VectorUnit, vector_unit, widens_halves


@pytest.mark.parametrize(
    ("config", "lanes", "registers"),
    [
        ({"mtriple": "aarch64-linux-gnu"}, 4, 28),
        ({"mtriple": "arm64-apple-macos", "mcpu": "apple-m1"}, 4, 28),
        ({"mtriple": "armv7a-linux-gnueabihf", "mcpu": "cortex-a15"}, 4, 16),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"}, 4, 16),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}, 8, 16),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "rocketlake"}, 16, 32),
    ],
)
def test_the_vector_unit_follows_from_the_target(config: dict[str, str], lanes: int, registers: int) -> None:
    unit = vector_unit(Target({"kind": "llvm", **config}))
    assert (unit.lanes, unit.registers) == (lanes, registers)


def test_what_fits_into_registers_follows_from_their_number() -> None:
    wide, narrow = VectorUnit(16, 16, 32), VectorUnit(4, 8, 16)
    assert [wide.registers_for(width) for width in (1, 16, 17, 48)] == [1, 1, 2, 3]
    assert [wide.rows_of_results(width) for width in (8, 16, 32, 512)] == [16, 16, 8, 1]
    assert [wide.most_rows(width) for width in (16, 48, 1024)] == [30, 9, 1]
    assert (wide.parts(), narrow.parts()) == ([16, 8, 4], [4])
    assert (wide.vectors_in(96), narrow.vectors_in(24), wide.vectors_in(24)) == ([16, 32, 48], [4, 8, 12], [])


@pytest.mark.parametrize(
    ("config", "are_widened"),
    [
        ({"mtriple": "aarch64-linux-gnu"}, True),
        ({"mtriple": "armv7a-linux-gnueabihf", "mcpu": "cortex-a15"}, False),
        ({"mtriple": "riscv64-linux-gnu"}, False),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"}, False),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "ivybridge"}, False),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}, True),
        ({"mtriple": "x86_64-linux-gnu", "mcpu": "znver4"}, True),
    ],
)
def test_numbers_of_16_bits_are_widened_where_an_instruction_does_it(config: dict[str, str], are_widened: bool) -> None:
    assert widens_halves(Target({"kind": "llvm", **config})) == are_widened
