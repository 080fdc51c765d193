"""What is known of a processor when kernels for it are planned: its units, its caches, and how fast it is.

LLVM says which units a target has. It does not say how large caches are nor how fast, so kernels are planned with the
numbers below on every processor. A size that was tuned as a part of a cache is a property of the caches.
"""

from __future__ import annotations

from math import gcd

from tvm.target import Target

from .._dataclasses import dataclass
from .integer_unit import IntegerUnit, integer_unit
from .matrix_unit import MatrixUnit, matrix_unit
from .vectors import VectorUnit, vector_unit

__all__ = ["CACHES", "MATRIX_CACHES", "PAGE", "RATES", "Caches", "Processor", "Rates", "cores_of", "processor_of"]

PAGE = 4096
"""Bytes of a page of memory: up to its end a processor fetches ahead."""


@dataclass(frozen=True)
class Caches:
    """The caches of one core. All sizes are in bytes.

    Attributes
    ----------
    first, second : int
        The first cache of data, and the second one, which is a core's own too.
    line : int
        What comes from memory at once.
    """

    first: int
    second: int
    line: int = 64

    @property
    def three_quarters_of_first(self) -> int:
        """Rows that are read again for each block of a weight, which streams through the rest."""
        return self.first * 3 // 4

    @property
    def sixteenth_of_second(self) -> int:
        """What is written, read back soon and then no longer needed: it leaves all else where it is."""
        return self.second // 16

    @property
    def quarter_of_second(self) -> int:
        """One operand of several that a kernel goes back to: larger ones are taken to come from farther away."""
        return self.second // 4

    @property
    def half_of_second(self) -> int:
        """What stays while other operands stream through the other half."""
        return self.second // 2

    @property
    def five_eighths_of_second(self) -> int:
        """Operands that are all used again, of which some give way to results now and then."""
        return self.second * 5 // 8

    @property
    def three_quarters_of_second(self) -> int:
        """Rows that stay beside one block of a weight in use and another on its way."""
        return self.second * 3 // 4

    def lines_apart(self, distance: int) -> int:
        """Return how many lines stay in the first cache that lie so many bytes apart.

        What a line lies at within a page says where it may stay, so those a multiple of some lines apart share places.
        """
        return self._lines_apart(distance, self.first)

    def second_lines_apart(self, distance: int) -> int:
        """Return how many lines stay in the second cache that lie so many bytes apart."""
        return self._lines_apart(distance, self.second)

    def _lines_apart(self, distance: int, size: int) -> int:
        places = PAGE // self.line
        used = places // gcd(places, distance // self.line) if distance % self.line == 0 else places
        return size // self.line * used // places


CACHES = Caches(first=32 << 10, second=1 << 20)
"""What kernels in vectors are planned for on every processor: the caches of Skylake-SP and of Zen 4."""

MATRIX_CACHES = Caches(first=48 << 10, second=2 << 20)
"""What kernels on a matrix unit are planned for: the caches of the first processors that have one, Sapphire Rapids."""


@dataclass(frozen=True)
class Rates:
    """How fast a core computes and moves data; only proportions matter.

    Attributes
    ----------
    latency : int
        Cycles until the result of a multiply-add can be added to.
    near, far, cold : int
        Bytes a cycle from the second cache, from beyond it, and of a weight after other layers have run.
    foreign : float
        Bytes a cycle of what another core has just written.
    move : float
        Cycles to load or store a vector that is in the first cache.
    """

    latency: int = 4
    near: int = 32
    far: int = 5
    cold: int = 4
    foreign: float = 0.5
    move: float = 0.7


RATES = Rates()
"""Of every class of processors; measured on ones with AVX-512."""


@dataclass(frozen=True)
class Processor:
    """The processor of a target.

    Attributes
    ----------
    vectors : VectorUnit
        What computes on vectors.
    integers : IntegerUnit or None
        What multiplies integers of 8 bits; None where kernels for them have no special instructions.
    matrix : MatrixUnit or None
        What multiplies AMX tiles; None where there is none that programs may use.
    cores : int
        How many cores share the work.
    caches : Caches
        Of a core.
    rates : Rates
        Of a core.

    Examples
    --------
    >>> zen = processor_of(Target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver4", "num-cores": 8}))
    >>> zen.vectors.lanes, zen.cores, zen.matrix, zen.integers.group
    (16, 8, None, 4)
    """

    vectors: VectorUnit
    integers: IntegerUnit | None
    matrix: MatrixUnit | None
    cores: int
    caches: Caches = CACHES
    rates: Rates = RATES


def processor_of(target: Target) -> Processor:
    """Return the processor of a CPU target; of what the target does not say, the least that its architecture has."""
    return Processor(vector_unit(target), integer_unit(target), matrix_unit(target), cores_of(target))


def cores_of(target: Target) -> int:
    """Return how many cores a target has for a kernel: one where it does not say."""
    return int(target.attrs.get("num-cores", 1))
