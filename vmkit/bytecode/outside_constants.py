"""Large constants kept out of bytecode while it is made: TVM would copy each several times on the way to a program.

In the code each leaves a text that says which one it was; :func:`put_back` gives the program the tensor's own memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.runtime import Tensor

from .._tvm import tensor_view
from . import Program, TensorConstant
from .weights import WEIGHT_BYTES

__all__ = ["put_back", "taken_out"]

_MARK = "vmkit.outside_constant:"


def taken_out(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[Tensor]]:
    """Return a module that is ready to become bytecode without its large constants, and these."""
    places: dict[Tensor, int] = {}

    def marked(constant: ir.GenericConst) -> ir.Expr:
        if not isinstance(constant.value, Tensor) or _bytes_of(constant.value) < WEIGHT_BYTES:
            return constant
        return ir.StringImm(f"{_MARK}{places.setdefault(constant.value, len(places))}")

    changed = {}
    for gvar, function in mod.functions.items():
        if isinstance(function, relax.Function):
            changed[gvar] = tvm_ffi.structural_map(function, (ir.GenericConst, marked))
    if not places:
        return mod, []
    result = tvm.IRModule(dict(mod.functions.items()), attrs=mod.attrs, global_infos=mod.global_infos)
    result.update(tvm.IRModule(changed))
    return result, list(places)


def put_back(program: Program, tensors: Sequence[Tensor]) -> Program:
    """Return a program with tensors on the CPU in the places of the texts that :func:`taken_out` left."""
    constants = [
        _over(tensors[int(c.removeprefix(_MARK))]) if isinstance(c, str) and c.startswith(_MARK) else c
        for c in program.constants
    ]
    return replace(program, constants=tuple(constants))


def _bytes_of(tensor: Tensor) -> int:
    return tensor.numel() * tensor.dtype.itemsize


def _over(tensor: Tensor) -> TensorConstant:
    """Return a tensor as a constant over its own memory."""
    dtype = tvm.DataType(str(tensor.dtype))
    memory: Any = np.from_dlpack(tensor_view(tensor, (_bytes_of(tensor),), "uint8"))
    return TensorConstant((dtype.type_code, dtype.bits, dtype.lanes), (1, 0), tuple(tensor.shape), memoryview(memory))
