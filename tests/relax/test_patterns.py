"""What is computed beside what: programs of Relax that others wrote, whose kernels say nothing of themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

import vmkit

N, C, H = 2, 5, 8
Make = Callable[[relax.Expr], relax.Expr]


def pooled(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.max_pool2d(x, [2, 2], [2, 2], layout="NHWC")


def summed(x: relax.Expr) -> relax.Expr:
    return relax.op.sum(x, [1, 2], keepdims=True)


def program(reduce: Make, after: list[int], height: tvm.ir.Expr | int) -> tvm.IRModule:
    """Return a module of a reduction, a pad behind its last elements, and what is done to each element of that."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType([N, height, H, C], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            reduced = builder.emit(reduce(x))
            widths = [width for size in after for width in (0, size)]
            padded = builder.emit(relax.op.nn.pad(reduced, widths))
            result = builder.emit_output(relax.op.nn.relu(relax.op.add(padded, relax.const(np.float32(1)))))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.sweep
@pytest.mark.parametrize("size", ["known", "unknown"])
@pytest.mark.parametrize("after", [[0, 0, 0, 4], [0, 1, 1, 0], [3, 0, 0, 0]])
@pytest.mark.parametrize("reduce", [pooled, summed])
def test_places_behind_the_last_result_of_a_reduction_are_written(reduce: Make, after: list[int], size: str) -> None:
    height = H if size == "known" else tvm.tirx.Var("h", "int64")
    machine = vmkit.VirtualMachine(vmkit.compile(program(reduce, after, height), "native"), vmkit.device("cpu"))
    x = np.random.default_rng(0).standard_normal((N, H, H, C)).astype("float32")
    pools = x.reshape(N, H // 2, 2, H // 2, 2, C)
    reduced = pools.max((2, 4)) if reduce is pooled else x.sum((1, 2), keepdims=True)
    expected = np.maximum(np.pad(reduced, [(0, width) for width in after]) + 1, 0)
    np.testing.assert_allclose(machine.run(x).numpy(), expected, rtol=1e-5, atol=1e-5)
