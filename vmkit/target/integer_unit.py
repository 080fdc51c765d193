"""What a CPU target multiplies integers of 8 bits with: the instructions that sum up their products in int32."""

from __future__ import annotations

import functools
from dataclasses import replace

from tvm.target import Target

from .._dataclasses import dataclass
from . import llvm

__all__ = ["VECTORS", "IntegerUnit", "integer_unit"]


@dataclass(frozen=True)
class IntegerUnit:
    """An instruction that multiplies groups of integers and adds each group's products to an int32.

    Attributes
    ----------
    lanes : int
        How many sums a vector holds.
    group : int
        How many products of a group: 4 of uint8 with int8, or 2 of int16 with int16. Sums that wrap do so as those of
        int32 do; none saturates but those of pairs.
    registers : int
        How many vectors there are.
    has_tiles : bool
        Whether there are tiles of such groups as well (AMX).
    adds_pairs : bool
        Whether there are two instructions for a group: the first adds the products of pairs as int16, and saturates.
    permutes_bytes : bool
        Whether an instruction puts the bytes of two vectors in any order (AVX-512 VBMI).
    """

    lanes: int
    group: int
    registers: int
    has_tiles: bool = False
    adds_pairs: bool = False
    permutes_bytes: bool = False

    @property
    def intrinsic(self) -> str:
        """What LLVM calls the instruction on vectors."""
        return _INTRINSICS[self.lanes, self.group]

    @property
    def in_pairs(self) -> IntegerUnit | None:
        """The unit that has two instructions for a group of 4; None where one does that, or none is there."""
        return replace(self, group=4, adds_pairs=True) if (self.lanes, 2 * self.group) in _OF_PAIRS else None

    @property
    def of_pairs(self) -> tuple[str, str]:
        """What LLVM calls the instructions that add products of pairs as int16, and products of int16 as int32."""
        return _OF_PAIRS[self.lanes, self.group], _INTRINSICS[self.lanes, 2]

    @property
    def adds_in_vectors(self) -> bool:
        """Whether sums are added to by an instruction of their own."""
        return self.group == 2 or self.adds_pairs

    @property
    def dtypes(self) -> tuple[str, str]:
        """The data types of the data and of the weight that the instruction takes."""
        return ("uint8", "int8") if self.group == 4 else ("int16", "int16")

    @property
    def depth(self) -> int:
        """How many neighbouring numbers are summed up together; each row of them is filled up to a multiple."""
        return 64 if self.has_tiles else self.group


# vpmaddubsw, which AVX2 has for integers of 8 bits, saturates at 16 bits, so that AVX2 takes most weights as int16.
_INTRINSICS = {
    (16, 4): "llvm.x86.avx512.vpdpbusd.512",
    (8, 4): "llvm.x86.avx512.vpdpbusd.256",
    (16, 2): "llvm.x86.avx512.pmaddw.d.512",
    (8, 2): "llvm.x86.avx2.pmadd.wd",
}
_OF_PAIRS = {(16, 4): "llvm.x86.avx512.pmaddubs.w.512", (8, 4): "llvm.x86.avx2.pmadd.ub.sw"}
# The best first: the features, and the unit that they mean.
_UNITS = (
    (("amx-tile", "amx-int8", "avx512vnni"), IntegerUnit(16, 4, 32, has_tiles=True)),
    (("avx512vnni",), IntegerUnit(16, 4, 32)),
    (("avxvnni",), IntegerUnit(8, 4, 16)),
    (("avx512bw",), IntegerUnit(16, 2, 32)),
    (("avx2",), IntegerUnit(8, 2, 16)),
)

VECTORS = IntegerUnit(16, 4, 32)
"""What processors with AVX-512 VNNI have."""


def integer_unit(target: Target) -> IntegerUnit | None:
    """Return the unit of an ``llvm`` target; None where kernels for integers have no special instructions."""
    if str(target.kind.name) != "llvm":
        return None
    return _unit(*llvm.description_of(target))


@functools.lru_cache(maxsize=64)
def _unit(triple: str, cpu: str, attributes: tuple[str, ...]) -> IntegerUnit | None:
    if llvm.architecture(triple) not in ("x86_64", "x86-64"):
        return None
    features = llvm.cpu_features(triple, cpu, attributes)
    # Linux alone is asked for tiles.
    is_linux = llvm.operating_system(triple) == "linux"
    fitting = (unit for needed, unit in _UNITS if features.issuperset(needed) and (is_linux or not unit.has_tiles))
    unit = next(fitting, None)
    return replace(unit, permutes_bytes=True) if unit is not None and "avx512vbmi" in features else unit
