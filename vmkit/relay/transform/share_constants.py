"""Constants with equal elements become one, so that what is computed of them is computed, and kept, once."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.runtime import Tensor

from ...values.equal_tensors import EqualTensors, size_of
from ..analysis.infer_type import typed
from ..ir import Constant, Function, const, post_order, rewrite
from .registry import ModuleTransform, on_functions, relay_pass

__all__ = ["ShareConstants", "SharedConstants"]

_SMALLEST = 1 << 10  # bytes; below, an expression of a constant costs more than its elements


@relay_pass(opt_level=2)
def ShareConstants() -> ModuleTransform:
    """Return the pass that makes one of constants with equal elements, in all functions of a module.

    Constants of less than a kilobyte stay as they are.
    """

    def on_module(mod: tvm.IRModule) -> tvm.IRModule:
        shared = SharedConstants()
        return on_functions(typed(mod), lambda function: _shared(function, shared))

    return on_module


class SharedConstants:
    """Constants that are made once for equal elements."""

    def __init__(self) -> None:
        self._tensors = EqualTensors()
        self._constants: dict[Tensor, Constant] = {}

    def const(self, array: np.ndarray) -> Constant:
        """Return the constant of an array; the one that was made before of an equal one."""
        return self.first_of(const(array))

    def first_of(self, constant: Constant) -> Constant:
        """Return the first constant that this was asked for with the elements of `constant`, which may be itself."""
        return self._constants.setdefault(self._tensors.first_of(constant.data), constant)


def _shared(function: Function, shared: SharedConstants) -> Function:
    constants = [node for node in post_order(function) if isinstance(node, Constant)]
    firsts = {node: shared.first_of(node) for node in constants if size_of(node.data) >= _SMALLEST}
    return rewrite(function, {node: first for node, first in firsts.items() if not first.same_as(node)})
