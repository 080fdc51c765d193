"""What is built by itself, and becomes one object."""

from __future__ import annotations

import tvm
from tvm.target import Target

from .._dataclasses import dataclass
from ..executable.scratch import scratch_folder

__all__ = ["Unit", "built"]


@dataclass(frozen=True)
class Unit:
    """A module of kernels, or of all functions that compute shapes, and the name of the pipeline that builds it."""

    mod: tvm.IRModule
    pipeline: str


def built(unit: Unit, coded: Target) -> bytes:
    """Return the object of a unit, for what :func:`.code_target.code_target` returns."""
    with scratch_folder() as folder:
        path = folder / "kernel.o"
        # Nothing here holds on to LLVM's form of the module.
        tvm.tirx.build(unit.mod, coded, unit.pipeline).write_to_file(str(path), "o")
        return path.read_bytes()
