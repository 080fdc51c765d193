"""Weights that are transformed when a program starts, as constants of Relax that hold no elements yet.

TVM's passes and its printer take constants of tensors alone. So each is a tensor of the size to come over memory that
nothing was written to, which takes none, but for a mark by which it differs from all others. No pass reads it;
bytecode is made with a text in its place (:mod:`vmkit.bytecode.outside_constants`).
"""

from __future__ import annotations

import contextlib
import itertools
import mmap
import secrets
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from tvm import ir, relax
from tvm.runtime import Tensor

from .._tvm import tensor_view
from .._tvm.running import from_dlpack
from ..errors import CompileError
from .winograd_weight import WinogradWeight

__all__ = ["later_constant", "later_weight"]

_MARK = np.frombuffer(secrets.token_bytes(32), "uint8")
_numbers = itertools.count()


class _StandIn(np.ndarray[Any, Any]):
    """Memory in the place of a transformed weight, with the weight as it is and what it is transformed to."""

    weight: Tensor
    plan: WinogradWeight


# By address: memory that is gone is not found, and what lies there next is something else.
_stand_ins: WeakValueDictionary[int, _StandIn] = WeakValueDictionary()


def later_constant(weight: Tensor, plan: WinogradWeight) -> ir.GenericConst:
    """Return the constant of a transformed weight, of which nothing is computed yet."""
    pages = mmap.mmap(-1, 4 * prod(plan.made))
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_NOHUGEPAGE)  # the mark would take 2 MB
    memory = np.frombuffer(pages, "uint8").view(_StandIn)
    memory.weight, memory.plan = weight, plan
    memory[: len(_MARK)] = _MARK
    memory[len(_MARK) : len(_MARK) + 8] = np.frombuffer(next(_numbers).to_bytes(8, "little"), "uint8")
    tensor = from_dlpack(memory)
    _stand_ins[tensor.data_ptr()] = memory
    return relax.const(tensor_view(tensor, plan.made, "float32"))


def later_weight(tensor: Tensor) -> tuple[Tensor, WinogradWeight] | None:
    """Return the weight and its transform for which a tensor of 64 bytes or more stands; None for any other tensor.

    Raises
    ------
    CompileError
        For a copy of one, which nothing is known of.
    """
    found = _stand_ins.get(tensor.data_ptr())
    if found is not None:
        return found.weight, found.plan
    if _begin(tensor) == _MARK.tobytes():
        raise CompileError("a pass has copied a weight that is transformed when the program starts")
    return None


def _begin(tensor: Tensor) -> bytes:
    """Return the first bytes of a tensor on the CPU; nothing of another one."""
    if tensor.device.dlpack_device_type() != 1 or not tensor.is_contiguous():
        return b""
    return np.from_dlpack(tensor_view(tensor, (len(_MARK),), "uint8")).tobytes()
