"""The matrix unit of a CPU target: AMX, which multiplies tiles of bfloat16 numbers (Intel, since Sapphire Rapids)."""

from __future__ import annotations

import ctypes
import functools
import platform

from tvm.target import Target

from .._dataclasses import dataclass
from . import llvm

__all__ = [
    "FEATURES",
    "MATRIX_UNIT",
    "MORE_FEATURES",
    "PERMISSION",
    "MatrixUnit",
    "has_matrix_unit",
    "is_permitted",
    "matrix_unit",
]

FEATURES = ("amx-tile", "amx-bf16", "avx512f")
"""What LLVM calls the instructions that the kernels for the matrix unit use."""
MORE_FEATURES = ("amx-int8",)
"""What units may have beside, which kernels for integers use."""
PERMISSION = (158, 0x1023, 18)
"""The system call by which a process asks Linux on x86-64 for tiles: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)."""


@dataclass(frozen=True)
class MatrixUnit:
    """How fast a matrix unit is beside the vectors of the same core; only proportions matter.

    Attributes
    ----------
    cut : float
        Nanoseconds to cut one float32 in bfloat16 parts.
    product : float
        Nanoseconds of a product of two float32 on the unit, all their parts' products.
    in_vectors : float
        Nanoseconds of the same product in vectors.
    gain : float
        How much sooner than vectors the unit has computed a large sum, its data's cutting counted.
    """

    cut: float = 0.08
    product: float = 1 / 200
    in_vectors: float = 1 / 85
    gain: float = 1.4


MATRIX_UNIT = MatrixUnit()
"""That of the first processors that have one."""


def matrix_unit(target: Target) -> MatrixUnit | None:
    """Return the matrix unit of an ``llvm`` target; None where there is none that programs may use."""
    if str(target.kind.name) != "llvm":
        return None
    triple, cpu, attributes = llvm.description_of(target)
    if llvm.architecture(triple) not in ("x86_64", "x86-64") or llvm.operating_system(triple) != "linux":
        return None
    return MATRIX_UNIT if llvm.cpu_features(triple, cpu, attributes).issuperset(FEATURES) else None


def has_matrix_unit(target: Target) -> bool:
    """Say whether an ``llvm`` target has a matrix unit that programs may use."""
    return matrix_unit(target) is not None


def is_permitted() -> bool:
    """Say whether this machine has a matrix unit that Linux lets this process use."""
    return all(llvm.host_features().get(feature) for feature in FEATURES) and _is_granted()


@functools.cache
def _is_granted() -> bool:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return int(ctypes.CDLL(None).syscall(*PERMISSION)) == 0
