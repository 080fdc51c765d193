"""Kernels that are written for instructions a target may lack: LLVM ends the process at one that it cannot select."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.target import Target

from ..errors import CompileError
from ..kernels.integer_matrices import NEEDS_UNIT
from ..target.integer_unit import integer_unit

__all__ = ["check_instructions"]


def check_instructions(mod: tvm.IRModule, target: Target) -> None:
    """Raise CompileError with the kernels of a module that multiply integers in vectors that a target has not."""
    unit = integer_unit(target)
    lanes, group = (unit.lanes, unit.group) if unit is not None else (0, 0)
    needed = {
        gvar.name_hint: [int(each) for each in function.attrs[NEEDS_UNIT]]
        for gvar, function in mod.functions.items()
        if isinstance(function, tirx.PrimFunc) and function.attrs.get(NEEDS_UNIT) is not None
    }
    # What adds groups of four has the instruction for pairs, too.
    missing = [
        f"{name} in vectors of {of} int32, by groups of {groups}"
        for name, (of, groups) in sorted(needed.items())
        if of > lanes or groups > group
    ]
    if missing:
        has = f"has vectors of {lanes}, and groups of {group}" if lanes else "has no instructions for that"
        raise CompileError(
            f"products of integers are computed by {', '.join(missing)}, but the target {target} {has}; write "
            "nn.matmul or nn.batch_matmul, which become what the target has"
        )
