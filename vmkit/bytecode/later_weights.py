"""Weights that are transformed when a program starts: constants whose bytes are made when somebody asks for them.

A file holds the weight as it was, which is up to four times smaller, or eight times where 16 bits hold its numbers, and
how it is transformed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from ..errors import ExecutableError
from ..kernels.winograd_weight import WinogradWeight
from ..values.halves import widened
from ..values.host_memory import aligned_empty, aligned_part
from .half_weights import FLOAT32, HALF_TYPES
from .program import TensorConstant

__all__ = ["LaterConstant", "later_from", "later_text"]


class LaterConstant(TensorConstant):
    """A transformed weight that is not there until its bytes are asked for, and as long as somebody has them.

    Attributes
    ----------
    weight : TensorConstant
        The weight as it was, in float32, float16 or bfloat16.
    plan : WinogradWeight
        How it is transformed.
    """

    weight: TensorConstant
    plan: WinogradWeight
    _memory: Callable[[], np.ndarray[Any, Any] | None]

    def __init__(self, weight: TensorConstant, plan: WinogradWeight) -> None:
        values = {"dtype": FLOAT32, "device": weight.device, "shape": plan.made, "reserved": 0}
        for name, value in {**values, "weight": weight, "plan": plan, "_memory": lambda: None}.items():
            object.__setattr__(self, name, value)  # as a frozen dataclass does it

    @property
    def data(self) -> memoryview:
        """The bytes: those that somebody has, or new ones."""
        memory = self._memory()
        if memory is None:
            made = aligned_empty(self.nbytes)
            weight = self.weight.numpy()
            weight = widened(weight) if weight.dtype == "uint16" else weight  # bfloat16, which numpy lacks
            self.plan.transform(weight, made.view("float32").reshape(self.plan.made))
            # What arrays over the memory hold, and tensors over those, is the array that it came in.
            object.__setattr__(self, "_memory", weakref.ref(made.base))
            return made.data
        return aligned_part(memory, self.nbytes).data

    @property
    def is_half(self) -> bool:
        """Whether the weight is in 16 bits."""
        return self.weight.dtype in HALF_TYPES.values()

    @property
    def nbytes(self) -> int:
        """How many bytes there will be."""
        return int(np.prod(self.plan.made)) * 4

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LaterConstant):
            return NotImplemented
        return (self.plan, self.weight) == (other.plan, other.weight)

    def __hash__(self) -> int:
        return hash(self.plan)

    def __repr__(self) -> str:
        return f"LaterConstant({self.weight.dtype_name}{list(self.weight.shape)}, {self.plan})"


def later_text(constant: LaterConstant) -> dict[str, Any]:
    """Return what a file says of a weight and its transform, beside the place of the weight."""
    return {
        "dtype": constant.dtype,
        "shape": constant.shape,
        "weight": constant.weight.shape,
        "tile": constant.plan.tile,
    }


def later_from(weight: TensorConstant, said: Mapping[str, Any]) -> LaterConstant:
    """Return the constant of which :func:`later_text` said that.

    Raises
    ------
    ExecutableError
        If no such transform is possible, or it does not give what is said.
    """
    shape, tile, made = (tuple(said[name]) for name in ("weight", "tile", "shape"))
    if not all(type(n) is int for n in (*shape, *tile, *made)) or (len(shape), len(tile), len(made)) != (4, 2, 4):
        raise ExecutableError(f"a weight {list(shape)!r:.80} cannot be transformed for tiles {list(tile)!r:.80}")
    plan = WinogradWeight(shape, tile, made[3])
    is_plain = weight.dtype in (FLOAT32, *HALF_TYPES.values()) and (weight.device[0], weight.shape) == (1, shape)
    is_plain = is_plain and weight.nbytes * 8 == prod(shape) * weight.dtype[1]
    if not plan.is_possible or plan.made != made or not is_plain or tuple(said["dtype"]) != FLOAT32:
        raise ExecutableError(f"a weight {list(shape)} for tiles {list(tile)} does not become {list(made)}")
    return LaterConstant(weight, plan)
