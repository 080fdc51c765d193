"""Divisions of a loop's number by sizes come before the loops in it, and never divide by 0."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.script import tirx as T

from vmkit.compiler.kernel_pipeline import PIPELINE
from vmkit.compiler.loop_places import compute_places_once
from vmkit.compiler.nonnegative_division import divide_nonnegative


def padded_lines() -> tvm.IRModule:
    """Return a kernel that pads images by a line and a column, all lines in one loop."""

    @T.prim_func(s_tir=True)
    def main(data: T.handle, made: T.handle) -> None:
        T.func_attr({"global_symbol": "main", "tirx.is_scheduled": True, "tirx.noalias": True, "vmkit.by_rule": True})
        b, h, w = T.int64(), T.int64(), T.int64()
        x = T.match_buffer(data, (b, h, w))
        y = T.match_buffer(made, (b, h + T.int64(1), w + T.int64(1)))
        for line in T.parallel(b * (h + T.int64(1))):
            for j in range(w + T.int64(1)):
                y[line // (h + T.int64(1)), line % (h + T.int64(1)), j] = T.if_then_else(
                    T.int64(1) <= line % (h + T.int64(1)) and T.int64(1) <= j,
                    x[line // (h + T.int64(1)), line % (h + T.int64(1)) - T.int64(1), j - T.int64(1)],
                    T.float32(-1),
                )

    return tvm.IRModule({"main": main})


def guarded_quotients() -> tvm.IRModule:
    """Return a kernel that divides by a size that may be 0, where it is none."""

    @T.prim_func(s_tir=True)
    def main(data: T.handle, made: T.handle) -> None:
        T.func_attr({"global_symbol": "main", "tirx.is_scheduled": True, "tirx.noalias": True, "vmkit.by_rule": True})
        n, m = T.int64(), T.int64()
        x = T.match_buffer(data, (n,))
        y = T.match_buffer(made, (m, 2))
        for i in T.serial(m):
            for j in range(T.int64(2)):
                y[i, j] = T.if_then_else(T.int64(0) < n, x[i % n], T.float32(7))

    return tvm.IRModule({"main": main})


def test_loops_in_a_loop_divide_nothing() -> None:
    places = compute_places_once(tvm.IRModule({"main": padded_lines()["main"]}))["main"]
    loops: list[tirx.For] = []
    inner: list[tirx.Expr] = []
    binds: list[tirx.Bind] = []
    tvm_ffi.structural_walk(places.body, [(tirx.For, loops.append), (tirx.Bind, binds.append)])
    (line,) = [loop for loop in loops if loop.kind == tirx.ForKind.SERIAL]
    tvm_ffi.structural_walk(line.body, [(kind, inner.append) for kind in (tirx.FloorDiv, tirx.FloorMod)])
    assert not inner
    assert sorted(type(bind.value).__name__ for bind in binds) == ["FloorDiv", "FloorMod"]


def test_values_are_the_same() -> None:
    kernel = tvm.tirx.build(padded_lines(), "llvm", PIPELINE)["main"]
    for shape in ((2, 3, 4), (1, 0, 5), (3, 2, 0), (0, 2, 2)):
        data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        made = tvm.runtime.empty((shape[0], shape[1] + 1, shape[2] + 1))
        kernel(tvm.runtime.tensor(data), made)
        np.testing.assert_array_equal(
            made.numpy(), np.pad(data, ((0, 0), (1, 0), (1, 0)), constant_values=-1), err_msg=str(shape)
        )


def test_a_size_of_0_is_not_divided_by() -> None:
    kernel = tvm.tirx.build(guarded_quotients(), "llvm", PIPELINE)["main"]
    for n in (0, 3):
        made = tvm.runtime.empty((4, 2))
        kernel(tvm.runtime.tensor(np.arange(n, dtype="float32")), made)
        expected = np.arange(4) % n if n else np.full(4, 7)
        np.testing.assert_array_equal(made.numpy(), np.repeat(expected[:, None], 2, 1))


def test_what_is_divided_on_is_known_to_be_no_less_than_0() -> None:
    """A place of a place, and one that is counted on from it, need no test of signs."""

    @T.prim_func(s_tir=True)
    def main(data: T.handle, made: T.handle) -> None:
        b, h, w, n = T.int64(), T.int64(), T.int64(), T.int64()
        x = T.match_buffer(data, (b, h, w), "float32")
        y = T.match_buffer(made, (b * h * w, n), "float32")
        for i in T.serial(b * h * w):
            for j in range(n):
                y[i, j] = x[i // w // h, i // w % h, (i % w * n + j) // n]

    module = divide_nonnegative(compute_places_once(tvm.IRModule({"main": main})))
    rounded: list[tirx.Expr] = []
    tvm_ffi.structural_walk(module["main"].body, [(kind, rounded.append) for kind in (tirx.FloorDiv, tirx.FloorMod)])
    assert not rounded
