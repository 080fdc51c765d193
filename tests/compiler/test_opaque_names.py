"""Numbers between two others that have names, and what is made of them, become machine code."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import tirx as T

from vmkit.compiler.kernel_pipeline import PIPELINE


def doubled_product_of_a_clipped_number() -> tvm.IRModule:
    """Return a kernel that names the product of a scalar and a number between two scalars, on all threads."""

    @T.prim_func(s_tir=True)
    def main(  # type: ignore[no-untyped-def]
        x: T.Buffer((3,), "float32"),  # type: ignore[valid-type]
        scalars: T.Buffer((3,), "float32"),  # type: ignore[valid-type]
        y: T.Buffer((3,), "float32"),  # type: ignore[valid-type]
    ):
        T.func_attr({"global_symbol": "main", "tirx.is_scheduled": True})
        least: T.let[T.float32] = scalars[0]
        most: T.let[T.float32] = scalars[1]
        factor: T.let[T.float32] = scalars[2]
        for i in T.parallel(3):
            product: T.let[T.float32] = T.min(most, T.max(least, x[i] * factor)) * factor
            y[i] = product + product

    return tvm.IRModule({"main": main})


def test_names_of_numbers_between_scalars_become_code() -> None:
    made = tvm.tirx.build(doubled_product_of_a_clipped_number(), "llvm", PIPELINE)
    x, scalars = np.array([-3, 0.5, 7], "float32"), np.array([-2, 4, 1.5], "float32")
    y = tvm.runtime.empty((3,), "float32")
    made["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(scalars), y)
    np.testing.assert_array_equal(y.numpy(), 2 * np.clip(x * scalars[2], scalars[0], scalars[1]) * scalars[2])
