"""How kernel groups ask from time to time whether to go on; see :mod:`vmkit.values.kernel_needs`.

What the kernels of a group read and write is counted down in the machine's state, in a part that all groups call.
Groups of known sizes that are done in some milliseconds are left alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import ir, relax, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.tirx.buffer import buffer_data

from ...kernels.builder import AS_WRITTEN
from ...values.element_types import element_bytes
from ...values.kernel_needs import LOOK_BYTES, POLL, RUN_STATE, SIGNAL_SECONDS
from .parts import as_part

__all__ = ["FEW_BYTES", "IS_LOOK", "bytes_of", "bytes_used", "is_long", "look_part", "run_state"]

FEW_BYTES = 1 << 20
"""Bytes of tensors of known sizes that are not looked after: at 500 operations for each of them 5 ms at most."""
IS_LOOK = "vmkit.is_look"
"""The attribute of :func:`look_part`, which is no kernel of the program."""
_CALL_BYTES = 64  # that the call of a kernel counts for, whatever its tensors are
_LEFT, _STOP, _RAISED, _THREAD, _LAST, _NOW = range(6)  # places in the state
_CLOCK = 6  # CLOCK_MONOTONIC_COARSE of Linux, which is read in some nanoseconds


def run_state() -> relax.Constant:
    """Return the constant in whose place a machine has its state."""
    return relax.const(np.frombuffer(RUN_STATE, "int64"), "int64")


def bytes_of(tensor: relax.Expr) -> tirx.Expr:
    """Return how many bytes a tensor of known shape has."""
    size: tirx.Expr = tirx.IntImm("int64", element_bytes(str(tensor.ty.dtype)))
    for dim in tensor.ty.shape.values:
        size = size * dim
    return size


def bytes_used(tensors: Sequence[relax.Expr]) -> tirx.Expr:
    """Return what a call of a kernel with some tensors counts for."""
    used: tirx.Expr = tirx.IntImm("int64", _CALL_BYTES)
    for tensor in tensors:
        used = used + bytes_of(tensor)
    return used


def is_long(used: Sequence[tirx.Expr]) -> bool:
    """Say whether calls may take long, of which each uses as many bytes."""
    known = [int(size.value) for size in used if isinstance(size, tirx.IntImm)]
    return len(known) < len(used) or sum(known) >= FEW_BYTES


def look_part(system: str) -> tirx.PrimFunc:
    """Return the part that counts down the bytes of the state that it is given, and looks if they are used up.

    Handlers of signals run in a function of tvm-ffi's C interface. What one raises is set in Python then, which the
    error says that the state holds. That function and the clock are given the address of the state, so that LLVM takes
    others to change it.

    Parameters
    ----------
    system
        The operating system, as :func:`vmkit.target.llvm.operating_system` has it: what tells time and threads is known
        of Linux; elsewhere handlers of signals run at each look.
    """
    zero = tirx.IntImm("int64", 0)
    with IRBuilder() as ib, T.prim_func(private=True):
        T.func_attr({IS_LOOK: True, **AS_WRITTEN})
        handle = T.arg("state", T.handle())
        used = T.arg("used", tirx.Var("used", "int64"))
        state = T.match_buffer(handle, (len(RUN_STATE) // 8,), "int64", layout=None)
        T.buffer_store(state, state[_LEFT] - used, [_LEFT])
        with T.If(state[_LEFT] < zero), T.Then():
            T.buffer_store(state, tirx.IntImm("int64", LOOK_BYTES), [_LEFT])
            with T.If(state[_STOP] != zero), T.Then():
                T.evaluate(tirx.call_packed(POLL))
            if system == "linux":
                with T.If(tirx.call_extern("int64", "pthread_self") == state[_THREAD]), T.Then():
                    _when_due(state)
            else:
                _signals(state)
    return as_part(ib.get())


def _when_due(state: ir.Var) -> None:
    now = tirx.handle_add_byte_offset(buffer_data(state), tirx.IntImm("int64", 8 * _NOW))
    T.evaluate(tirx.call_extern("int32", "clock_gettime", tirx.IntImm("int32", _CLOCK), now))
    T.buffer_store(state, state[_NOW] * tirx.IntImm("int64", 10**9) + state[_NOW + 1], [_NOW])
    with T.If(state[_NOW] - state[_LAST] >= tirx.IntImm("int64", round(SIGNAL_SECONDS * 10**9))), T.Then():
        T.buffer_store(state, state[_NOW], [_LAST])
        _signals(state)


def _signals(state: ir.Var) -> None:
    failed = tirx.call_extern("int32", "TVMFFIEnvCheckSignals", buffer_data(state))
    with T.If(failed != 0), T.Then():
        T.evaluate(tirx.call_extern("void", "TVMFFIErrorSetRaised", state[_RAISED]))
        T.evaluate(ir.Call("tirx.tvm_throw_last_error", [], ret_ty="handle"))
