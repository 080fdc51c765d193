"""The vector unit of a CPU target: how wide its registers are, and how many a kernel may keep results in."""

from __future__ import annotations

import functools
from dataclasses import replace

from tvm.target import Target

from .._dataclasses import dataclass
from . import llvm

__all__ = ["GATHERED", "PORTABLE", "VectorUnit", "vector_unit", "widens_halves"]


@dataclass(frozen=True)
class VectorUnit:
    """A vector unit.

    Attributes
    ----------
    lanes : int
        How many float32 a register holds.
    accumulators : int
        How many registers hold results while a reduction runs: enough to hide the latency of multiply-add, and few
        enough that LLVM does not spill.
    registers : int
        How many registers a kernel may use. On NEON some are left out: multiply-add takes nothing from memory there, so
        that elements on their way need registers too.
    passes : int
        How many times a unit works for each register: twice where it is half as wide, as all of Zen 4's for 512 bits.
    """

    lanes: int
    accumulators: int
    registers: int
    passes: int = 1

    def registers_for(self, width: int) -> int:
        """Return how many registers so many float32 next to each other take."""
        return -(-width // self.lanes)

    def rows_of_results(self, width: int) -> int:
        """Return how many rows of results, each so many float32 wide, are in registers while a reduction runs."""
        return max(1, self.accumulators * self.lanes // max(width, self.lanes))

    def most_rows(self, width: int) -> int:
        """Return how many rows of results fit beside a row of one operand and an element of the other."""
        vectors = self.registers_for(width)
        return max(1, (self.registers - vectors - 1) // vectors)

    def parts(self) -> list[int]:
        """Return the elements of a vector, of half of one and of a quarter, as far as they are worth it."""
        return [t for t in (self.lanes, self.lanes // 2, self.lanes // 4) if t >= _LEAST]

    def vectors_in(self, width: int) -> list[int]:
        """Return the elements of one vector to four, as far as they divide a width."""
        return [self.lanes * t for t in (1, 2, 3, 4) if width % (self.lanes * t) == 0]


_LEAST = 4  # elements that are worth a vector

# The widest first: the feature, and the unit that it means.
_UNITS = (
    ("avx512f", VectorUnit(16, 16, 32)),
    ("avx", VectorUnit(8, 12, 16)),
    ("neon", VectorUnit(4, 16, 28)),
)
_PLAIN = VectorUnit(4, 8, 16)  # also NEON where registers of scalars have 32 bits
_HALF_AS_WIDE = ("znver4",)  # processors whose units are half as wide as the registers of AVX-512
_OF_WIDTH = {512: _UNITS[0][1], 256: _UNITS[1][1], 128: _PLAIN}  # on x86-64

PORTABLE = VectorUnit(8, 8, 16)
"""What tiles that are the same for every target are made for: the registers of AVX, of which half hold results."""

GATHERED = 8
"""How many elements are gathered fastest: as many as there are addresses in a vector of AVX-512."""


def vector_unit(target: Target) -> VectorUnit:
    """Return the vector unit of an ``llvm`` target; 128 bits where nothing more is known of it.

    A target for x86-64 that gives its ``vector-width`` has a unit of that width, whatever its processor has.
    """
    return _unit(*llvm.description_of(target), int(target.attrs.get("vector-width", 0)))


@functools.lru_cache(maxsize=64)
def _unit(triple: str, cpu: str, attributes: tuple[str, ...], width: int) -> VectorUnit:
    if width in _OF_WIDTH and llvm.architecture(triple) == "x86_64":
        unit = _OF_WIDTH[width]
    elif llvm.architecture(triple) not in ("x86_64", "i386", "aarch64"):
        return _PLAIN
    else:
        features = llvm.cpu_features(triple, cpu, attributes)
        unit = next((unit for feature, unit in _UNITS if feature in features), _PLAIN)
    return replace(unit, passes=2) if unit.lanes == 16 and cpu in _HALF_AS_WIDE else unit


def widens_halves(target: Target) -> bool:
    """Say whether an ``llvm`` target makes vectors of float32 from float16 and bfloat16 in an instruction or two.

    >>> widens_halves(Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v3"}))
    True
    >>> widens_halves(Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"}))
    False
    """
    return _widens_halves(*llvm.description_of(target))


@functools.lru_cache(maxsize=64)
def _widens_halves(triple: str, cpu: str, attributes: tuple[str, ...]) -> bool:
    if llvm.architecture(triple) != "x86_64":
        return llvm.architecture(triple) == "aarch64"
    # Without AVX2 there is no widening of integers in whole vectors, which is what bfloat16 takes.
    return llvm.cpu_features(triple, cpu, attributes).issuperset(("avx2", "f16c"))
