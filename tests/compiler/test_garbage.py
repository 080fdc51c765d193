"""While a program is compiled Python leaves old objects alone; afterwards it does what it did."""

from __future__ import annotations

import gc
import weakref

import tvm

from vmkit import relay
from vmkit.compiler.garbage import free_cycles, old_objects_left_alone
from vmkit.compiler.vm_compiler import VMCompiler


def test_how_often_garbage_is_searched_for_is_set_back() -> None:
    before = gc.get_threshold()
    with old_objects_left_alone():
        with old_objects_left_alone():
            pass
        assert gc.get_threshold() == (max(before[0], 50_000), before[1], max(before[2], 1_000))
    assert gc.get_threshold() == before
    try:
        with old_objects_left_alone():
            gc.set_threshold(1, 2, 3)
        assert gc.get_threshold() == (1, 2, 3)  # what somebody else sets meanwhile stays
        gc.set_threshold(0, 2, 3)  # as a process does that never searches by itself
        with old_objects_left_alone():
            assert gc.get_threshold() == (0, 2, 1_000)
        assert gc.get_threshold() == (0, 2, 3)
    finally:
        gc.set_threshold(*before)


class _Node:
    """What a weak reference may be to."""

    def __init__(self) -> None:
        self.own = self


def test_what_is_left_in_cycles_ends_while_old_objects_are_left_alone() -> None:
    with old_objects_left_alone():
        left = weakref.ref(_Node())
        assert left() is not None
        free_cycles()
        assert left() is None


def test_what_lowering_leaves_in_cycles_is_not_there_while_kernels_are_built() -> None:
    x = relay.var("x", shape=(2, 3))
    compiler = VMCompiler()
    with old_objects_left_alone():
        compiler.lower(tvm.IRModule({"main": relay.Function([x], relay.add(x, x))}), "llvm")
        left = weakref.ref(_Node())
        assert left() is not None
        compiler.codegen()
        assert left() is None


def test_a_process_that_never_searches_for_garbage_does_not_begin_to() -> None:
    gc.disable()
    try:
        left = weakref.ref(_Node())
        free_cycles()
        assert left() is not None
    finally:
        gc.enable()
