"""Constants that are kept somewhere else: in the code, a text in the place of each says which one belongs there.

One mechanism for all that take constants out of a program, which differ in what their texts say: while bytecode is made
(:mod:`.outside_constants`), in a file (:mod:`.stored_weights`), and until the user binds them (:mod:`.late_constants`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm
from tvm.runtime import Tensor

from .._dataclasses import dataclass
from .program import Constant, Program, TensorConstant

__all__ = ["WEIGHT_BYTES", "Placeholder", "constant_of", "large_constants", "with_constants"]

WEIGHT_BYTES = 1 << 16
"""From this size on a constant is worth being kept elsewhere, and the instruction that fetches it in every call."""


@dataclass(frozen=True)
class Placeholder:
    """A kind of text that stands for constants.

    Parameters
    ----------
    mark
        What such texts begin with, and no other text of a program.

    Examples
    --------
    >>> weight = Placeholder("vmkit.example:")
    >>> weight.text({"place": 64})
    'vmkit.example:{"place": 64}'
    """

    mark: str

    def text(self, said: int | Mapping[str, Any]) -> str:
        """Return the text that says something, which JSON can tell."""
        return self.mark + json.dumps(said)

    def found(self, program: Program) -> dict[int, Any]:
        """Return what the texts of this kind among a program's constants say, by their positions."""
        return {
            position: json.loads(constant.removeprefix(self.mark))
            for position, constant in enumerate(program.constants)
            if isinstance(constant, str) and constant.startswith(self.mark)
        }


def large_constants(program: Program, smallest: int = WEIGHT_BYTES) -> dict[int, TensorConstant]:
    """Return the tensors among a program's constants that have `smallest` bytes or more, by their positions."""
    return {
        position: constant
        for position, constant in enumerate(program.constants)
        if isinstance(constant, TensorConstant) and constant.nbytes >= smallest
    }


def with_constants(program: Program, others: Mapping[int, Constant]) -> Program:
    """Return a program with other constants at some positions."""
    constants = (others.get(position, constant) for position, constant in enumerate(program.constants))
    return replace(program, constants=tuple(constants))


def constant_of(tensor: Tensor, data: bytes | memoryview) -> TensorConstant:
    """Return the constant of a tensor's shape and data type, on the CPU, whose elements are `data`."""
    dtype = tvm.runtime.DataType(str(tensor.dtype))
    return TensorConstant((dtype.type_code, dtype.bits, dtype.lanes), (1, 0), tuple(tensor.shape), data)
