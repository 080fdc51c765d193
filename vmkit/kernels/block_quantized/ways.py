"""The ways of multiplying with codes there are, by name, and which of them a processor takes.

To add one: an :class:`.Arithmetic`, and its place in this table.
"""

from __future__ import annotations

from ...target.processor import Processor
from .arithmetic import Arithmetic
from .floats import FloatArithmetic
from .integers import IntegerArithmetic

__all__ = ["WAYS", "way_for"]

_MANY_ROWS = 8  # of which a block's sums and the totals are in registers

WAYS: dict[str, Arithmetic] = {
    way.name: way
    for way in (
        FloatArithmetic("float32", "float32", 32, 1, looks_up=False),
        FloatArithmetic("float32_lookup", "float32", 32, 1, looks_up=True),
        IntegerArithmetic("int8_dot", "int8", 8, 4, has_dot=True),
        IntegerArithmetic("int8_pairs", "int8", 8, 4, has_dot=False),
    )
}
"""Ways of multiplying with codes."""


def way_for(processor: Processor, bits: int, rounds_data: bool) -> tuple[Arithmetic, int, int]:
    """Return how a processor multiplies codes of so many bits, the lanes of a vector, and how many rows at once.

    Data that may be rounded are, where there are instructions for it.
    """
    vectors, unit = processor.vectors, processor.integers
    lanes, name = vectors.lanes, "float32_lookup" if vectors.lanes == 16 and bits == 4 else "float32"
    if rounds_data and unit is not None and (unit.group == 4 or bits <= 4):
        lanes, name = unit.lanes, "int8_dot" if unit.group == 4 else "int8_pairs"
    # Totals of floats, which are added to once a block, may wait in memory.
    has_room = vectors.registers >= 2 * _MANY_ROWS + 8 or WAYS[name].numbers == "float32"
    return WAYS[name], lanes, _MANY_ROWS if has_room else _MANY_ROWS // 2
