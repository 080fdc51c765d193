"""Slices whose bounds are computed from sizes have the elements that numpy gives, in sizes without calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

import vmkit
from vmkit._tvm.nodes import is_choice
from vmkit.compiler.options import CompilerOptions
from vmkit.compiler.pipeline import fuse_relax

CASES: dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], int]] = {
    "the last ones": (lambda n, k: (n - 3, n), 1),
    "up to another size": (lambda n, k: (0, k), 1),
    "from another size on": (lambda n, k: (k, n), 2),
    "a bound that may be negative": (lambda n, k: (k - 4, n - 1), 2),
    "counted from the end": (lambda n, k: (-k, n), 1),
    "backwards": (lambda n, k: (n, 0), -1),
    "backwards between sizes": (lambda n, k: (n - 1, k - 4), -2),
}


def sliced(name: str) -> tvm.IRModule:
    """Return twice a slice of ``x`` (2, n), whose bounds are computed from n and the size k of ``y``."""
    bounds, step = CASES[name]
    n, k = tirx.Var("n", "int64"), tirx.Var("k", "int64")
    begin, end = bounds(n, k)
    builder = relax.BlockBuilder()
    x, y = relax.Var("x", relax.TensorType([2, n], "float32")), relax.Var("y", relax.TensorType([k], "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            part = builder.emit(relax.op.strided_slice(x, [1], [begin], [end], [step]))
            result = builder.emit_output(relax.op.multiply(part, relax.const(2.0, "float32")))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("name", CASES)
def test_elements_are_those_of_numpy(name: str) -> None:
    bounds, step = CASES[name]
    machine = vmkit.VirtualMachine(vmkit.compile(sliced(name), "llvm"), "cpu")
    for n, k in ((9, 6), (3, 1), (20, 30), (5, 5), (4, 2), (1, 7)):
        x, (begin, end) = np.random.default_rng(n).random((2, n), "float32"), bounds(n, k)
        result = machine.run(x, np.zeros(k, "float32")).numpy()
        np.testing.assert_array_equal(result, 2 * x[:, begin:end:step])


@pytest.mark.parametrize("name", CASES)
def test_no_size_has_a_call(name: str) -> None:
    made = fuse_relax(sliced(name), tvm.target.Target("llvm"), CompilerOptions())
    types = list[relax.TensorType]()
    tvm_ffi.structural_walk(made["main"], (relax.Var, lambda v: types.append(v.ty)))
    calls = list[tvm.ir.Call]()
    for size in (d for ty in types if isinstance(ty, relax.TensorType) and ty.shape is not None for d in ty.shape):
        tvm_ffi.structural_walk(size, (tvm.ir.Call, lambda e: calls.append(e) if is_choice(e) else None))
    assert not calls
