"""Large constants kept out of bytecode while it is made: TVM would copy each several times on the way to a program.

In the code each leaves a text that says which one it was; :func:`put_back` gives the program the tensor's own memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.runtime import Tensor

from ..relax.rewrite import with_functions
from ..values.equal_tensors import EqualTensors, bytes_of, size_of
from . import Program, TensorConstant
from .placeholders import WEIGHT_BYTES, Placeholder, constant_of, with_constants

__all__ = ["put_back", "taken_out"]

_OUTSIDE = Placeholder("vmkit.outside_constant:")


def taken_out(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[Tensor]]:
    """Return a module that is ready to become bytecode without its large constants, and these, equal ones once."""
    places: dict[Tensor, int] = {}
    equal = EqualTensors()

    def marked(constant: ir.GenericConst) -> ir.Expr:
        if not isinstance(constant.value, Tensor) or size_of(constant.value) < WEIGHT_BYTES:
            return constant
        return ir.StringImm(_OUTSIDE.text(places.setdefault(equal.first_of(constant.value), len(places))))

    changed = {}
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            changed[gvar] = tvm_ffi.structural_map(function, (ir.GenericConst, marked))
    if not places:
        return mod, []
    return with_functions(mod, changed), list(places)


def put_back(program: Program, tensors: Sequence[Tensor]) -> Program:
    """Return a program with tensors on the CPU in the places of the texts that :func:`taken_out` left."""
    return with_constants(program, {at: _over(tensors[number]) for at, number in _OUTSIDE.found(program).items()})


def _over(tensor: Tensor) -> TensorConstant:
    """Return a tensor as a constant over its own memory."""
    return constant_of(tensor, bytes_of(tensor).data)
