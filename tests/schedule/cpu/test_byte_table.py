"""Bytes that are looked up in a table of 256 are picked out of vectors, and have the values of the table."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

import vmkit
from vmkit import relay
from vmkit.schedule import cpu as rules
from vmkit.target import canonical_target

PICKING, PLAIN = (f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}" for cpu in ("znver4", "x86-64-v3"))


def is_picked(width: int, dtype: str, target: str = PICKING) -> bool:
    """Say whether a kernel that looks up bytes of a type in a table of a width takes the instruction for it."""
    table, x = te.placeholder((width,), dtype, "table"), te.placeholder((4, 100), "uint8", "x")
    found = te.compute(x.shape, lambda i, j: table[x[i, j].astype("int32")])
    module = tvm.IRModule({"main": te.create_prim_func([table, x, found])})
    return "vpermi2var" in rules.schedule_kernels(module, canonical_target(target).primary).script()


def test_tables_of_bytes_alone_are_picked_from() -> None:
    assert is_picked(256, "uint8") and is_picked(256, "int8")
    assert not is_picked(255, "uint8") and not is_picked(256, "float32")
    assert not is_picked(256, "uint8", PLAIN)


@pytest.mark.sweep
@pytest.mark.parametrize("target", ["native", PLAIN])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_bytes_have_the_values_of_their_table(dtype: str, target: str) -> None:
    table = np.random.default_rng(0).permutation(256).astype("uint8").view(dtype)
    for shape, runs in (
        ((relay.Any(), 3, relay.Any()), [(0, 3, 5), (1, 3, 1), (5, 3, 7), (70, 3, 100)]),
        ((300, 77), [(300, 77)]),
        ((64,), [(64,)]),
        ((), [()]),
    ):
        x = relay.var("x", shape=shape, dtype="uint8")
        function = relay.Function([x], relay.take(relay.const(table), relay.cast(x, "int32")))
        machine = vmkit.VirtualMachine(vmkit.compile(function, target=target), num_threads=2)
        for run in runs:
            data = np.random.default_rng(1).integers(0, 256, run).astype("uint8")
            np.testing.assert_array_equal(machine.run(data).numpy(), table[data.astype("int32")])
