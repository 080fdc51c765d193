"""What a kernel keeps results in while a reduction runs is no memory of the runtime's."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from vmkit.compiler.kernel_pipeline import PIPELINE


def sums(size: int) -> tirx.PrimFunc:
    """Return a kernel that adds up rows in a local buffer of so many float32."""

    @T.prim_func
    def main(x: T.Buffer((3, size), "float32"), y: T.Buffer((size,), "float32")):  # type: ignore[no-untyped-def, valid-type]
        total = T.alloc_buffer((size,), "float32", scope="local", layout=None)
        for i in T.serial(size):
            total[i] = T.float32(0)
        for k in T.serial(3):
            for i in T.serial(size):
                total[i] = total[i] + x[k, i]
        for i in T.serial(size):
            y[i] = total[i]

    return main


# 256 are sixteen vectors of 64 bytes; no thread's stack is for a megabyte.
@pytest.mark.parametrize(("size", "is_on_stack"), [(16, True), (256, True), (262_144, False)])
def test_small_local_buffers_are_on_the_stack(size: int, is_on_stack: bool) -> None:
    built = tvm.compile(tvm.IRModule({"main": sums(size)}), "llvm", tir_pipeline=PIPELINE)
    assert ("TVMBackendAllocWorkspace" not in built.mod.inspect_source("ll")) == is_on_stack
    x = np.random.default_rng(0).standard_normal((3, size)).astype("float32")
    result = tvm.runtime.tensor(np.zeros(size, "float32"))
    built["main"](tvm.runtime.tensor(x), result)
    np.testing.assert_allclose(result.numpy(), x.sum(0), rtol=1e-5, atol=1e-6)
