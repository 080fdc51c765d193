"""Runaway recursion becomes an error: a check of the stack at the start of every recursive function.

The check is a function of TVM's C interface. Its caller, the VM, hands it a place for its result, which lies in the
VM's own stack frame: that address tells how much of the stack is used. Threads announce their stack with
:func:`guard_this_thread`; on other threads nothing is checked.
"""

from __future__ import annotations

import threading

import tvm_ffi

from .._tvm.running import declare_packed, fail_packed
from ..bytecode import Call, Program
from ..bytecode.program import VOID_REGISTER
from ..bytecode.rewrite import edited, with_bodies, with_packed

__all__ = ["guard_this_thread", "guarded"]

_NAME = "vmkit.stack_guard"
_MESSAGE = b"the recursion is too deep for a stack of %d MiB; does it end? A tail call needs no stack"
# What the kernels of the innermost level, and Python functions they call, may still use.
_RESERVE = 8 << 20

_thread = threading.local()


def guard_this_thread(stack_bytes: int) -> None:
    """Have the functions of :func:`guarded` programs fail before they overflow this thread's stack.

    To be called by a thread of `stack_bytes` at its start, where little of the stack is used.
    """
    _thread.measure = True
    tvm_ffi.get_global_func(_NAME)()
    _thread.size = stack_bytes
    _thread.floor = _thread.base - stack_bytes + min(_RESERVE, stack_bytes // 4)


def guarded(program: Program) -> Program:
    """Return `program` with the check at the start of every function that can come to call itself."""
    recursive = [(at, program.functions[at]) for at in program.recursive_functions()]
    program, check = with_packed(program, _NAME)
    checked = {0: [Call(VOID_REGISTER, check, ())]}
    return with_bodies(program, {at: (row, edited(program.code(row), before=checked)) for at, row in recursive})


def _check(_self: int, _args: int, _count: int, result: int) -> int:
    if getattr(_thread, "measure", False):
        _thread.measure, _thread.base = False, result
        return 0
    if result >= getattr(_thread, "floor", 0):
        return 0
    return fail_packed(_MESSAGE % (_thread.size >> 20))


declare_packed(_NAME, _check)
