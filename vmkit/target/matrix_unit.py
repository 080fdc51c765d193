"""The matrix unit of a CPU target: AMX, which multiplies tiles of bfloat16 numbers (Intel, since Sapphire Rapids)."""

from __future__ import annotations

import ctypes
import functools
import platform

from tvm.target import Target

from . import llvm

__all__ = ["FEATURES", "MORE_FEATURES", "PERMISSION", "has_matrix_unit", "is_permitted"]

FEATURES = ("amx-tile", "amx-bf16", "avx512f")
"""What LLVM calls the instructions that the kernels for the matrix unit use."""
MORE_FEATURES = ("amx-int8",)
"""What units may have beside, which kernels for integers use."""
PERMISSION = (158, 0x1023, 18)
"""The system call by which a process asks Linux on x86-64 for tiles: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)."""


def has_matrix_unit(target: Target) -> bool:
    """Say whether an ``llvm`` target has a matrix unit that programs may use."""
    if str(target.kind.name) != "llvm":
        return False
    triple = str(target.attrs.get("mtriple", "")) or llvm.default_triple()
    if llvm.architecture(triple) not in ("x86_64", "x86-64") or llvm.operating_system(triple) != "linux":
        return False
    attributes = tuple(str(a) for a in target.attrs.get("mattr", ()))
    features = llvm.cpu_features(triple, str(target.attrs.get("mcpu", "")), attributes)
    return all(feature in features for feature in FEATURES)


def is_permitted() -> bool:
    """Say whether this machine has a matrix unit that Linux lets this process use."""
    return all(llvm.host_features().get(feature) for feature in FEATURES) and _is_granted()


@functools.cache
def _is_granted() -> bool:
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return int(ctypes.CDLL(None).syscall(*PERMISSION)) == 0
