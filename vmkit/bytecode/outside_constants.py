"""Large constants kept out of bytecode while it is made: TVM would copy each several times on the way to a program.

In the code each leaves a text that says which one it was; :func:`put_back` gives the program the tensor's own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.runtime import Tensor

from ..kernels.later_weight import later_weight
from ..kernels.winograd_weight import WinogradWeight
from ..relax.rewrite import with_functions
from ..values.equal_tensors import EqualTensors, bytes_of, size_of
from . import Program, TensorConstant
from .later_weights import LaterConstant
from .placeholders import WEIGHT_BYTES, Placeholder, constant_of, with_constants

__all__ = ["Outside", "put_back", "taken_out"]

_OUTSIDE = Placeholder("vmkit.outside_constant:")


Outside: TypeAlias = "Tensor | tuple[Tensor, WinogradWeight]"
"""A constant, or what it is made of when the program starts."""


def taken_out(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[Outside]]:
    """Return a module that is ready to become bytecode without its large constants, and these, equal ones once."""
    places: dict[Outside, int] = {}
    equal = EqualTensors()

    def marked(constant: ir.GenericConst) -> ir.Expr:
        if not isinstance(constant.value, Tensor) or size_of(constant.value) < WEIGHT_BYTES:
            return constant
        later = later_weight(constant.value)
        outside: Outside = equal.first_of(constant.value) if later is None else (equal.first_of(later[0]), later[1])
        return ir.StringImm(_OUTSIDE.text(places.setdefault(outside, len(places))))

    changed = {}
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            changed[gvar] = tvm_ffi.structural_map(function, (ir.GenericConst, marked))
    if not places:
        return mod, []
    return with_functions(mod, changed), list(places)


def put_back(program: Program, constants: Sequence[Outside]) -> Program:
    """Return a program with constants on the CPU in the places of the texts that :func:`taken_out` left."""
    return with_constants(program, {at: _over(constants[number]) for at, number in _OUTSIDE.found(program).items()})


def _over(outside: Outside) -> TensorConstant:
    """Return a constant over the memory of its tensor, or of the tensor that it is made of."""
    if isinstance(outside, tuple):
        tensor, plan = outside
        return LaterConstant(_over(tensor), plan)
    return constant_of(outside, bytes_of(outside).data)
