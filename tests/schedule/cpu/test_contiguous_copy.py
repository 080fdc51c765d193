"""Long runs of elements are copied by the C library, whatever they are parts of, and short ones by vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import vmkit
from vmkit import relay
from vmkit.relay import Any
from vmkit.schedule import cpu as rules
from vmkit.target import canonical_target

ANY = Any()
X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu=x86-64-v3"


def is_copied(shape: tuple[int | tirx.Var, ...], begin: int, target: str = X86) -> bool:
    """Say whether the second half of a middle axis, from a place on, is copied by runs."""
    x = te.placeholder(shape, "float32", "x")
    half = te.compute((shape[0], shape[1] // 2, shape[2]), lambda i, j, k: x[i, j + begin, k])
    module = tvm.IRModule({"main": te.create_prim_func([x, half])})
    return "memcpy" in rules.schedule_kernels(module, canonical_target(target).primary).script()


def test_runs_that_are_long_or_may_be_are_copied_by_the_c_library() -> None:
    n = tirx.Var("n", "int64")
    assert is_copied((2, 128, 64), 64) and not is_copied((2, 128, 63), 64)
    assert is_copied((2, 8, n), 4) and not is_copied((n, 8, 64), 4)
    assert not is_copied((2, 128, 64), 64, "c")


AT = np.array([1, 0, -1, 1])

# By name: the program, and what numpy computes.
COPIES: dict[str, tuple[Callable[[relay.Expr], relay.Expr], Callable[[np.ndarray], list[np.ndarray]]]] = {
    "split": (lambda x: relay.split(x, 2, axis=1).tuple_value, lambda x: np.split(x, 2, 1)),
    "concatenate": (lambda x: relay.concatenate([x, x, x], axis=1), lambda x: [np.concatenate([x, x, x], 1)]),
    "pad": (lambda x: relay.nn.pad(x, ((0, 0), (3, 1), (0, 0)), 1), lambda x: [_padded(x)]),
    "take": (lambda x: relay.take(x, relay.const(AT), axis=0, mode="wrap"), lambda x: [x[AT]]),
    "transpose": (lambda x: relay.transpose(x, (1, 0, 2)), lambda x: [x.transpose(1, 0, 2)]),
}
# By shape: the sizes that it is called with, of which some share the work of two cores.
SIZES = {(2, 6, 4099): [(2, 6, 4099)], (ANY, 6, 4099): [(5, 6, 4099)], (ANY, ANY, ANY): [(2, 6, 1), (40, 300, 7)]}


def _padded(x: np.ndarray) -> np.ndarray:
    return np.pad(x, ((0, 0), (3, 1), (0, 0)), constant_values=1)


@pytest.mark.parametrize("name", COPIES)
def test_copies_have_the_values_of_what_they_are_of(name: str) -> None:
    program, expected = COPIES[name]
    for shape, sizes in SIZES.items():
        x = relay.var("x", shape=shape, dtype="float32")
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], program(x)), "native"), num_threads=2)
        for size in sizes:
            data = np.random.default_rng(0).standard_normal(size).astype("float32")
            result = machine.run(data)
            made = result if isinstance(result, list | tuple) else [result]
            for one, other in zip(made, expected(data), strict=True):
                np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("dtype", ["bool", "float16", "int64"])
def test_elements_of_any_width_are_copied(dtype: str) -> None:
    x = relay.var("x", shape=(4, 70_000), dtype=dtype)
    program = relay.Function([x], relay.strided_slice(x, begin=[1, 5], end=[4, 69_999]))
    machine = vmkit.VirtualMachine(vmkit.compile(program, "native"), num_threads=2)
    data = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (4, 70_000)).astype(dtype)
    np.testing.assert_array_equal(machine.run(data).numpy(), data[1:, 5:69_999])
