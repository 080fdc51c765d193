"""Integers are divided as floats where vectors have these, and every quotient and remainder is exact."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tvm
from tvm import te, tirx

import vmkit
from vmkit import relay
from vmkit.kernels.vector_math.division import with_float_divisions


def exact(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return quotients or remainders of int64: 0 by 0, as a kernel gives it."""
    with np.errstate(over="ignore"):
        quotient, rest = np.divmod(a, np.where(b == 0, 1, b))
    # Rounded down as numpy has it; towards zero it is one more where signs differ and something is left.
    if name in ("divide", "trunc_mod"):
        is_less = (rest != 0) & ((a < 0) != (b < 0))
        quotient, rest = quotient + is_less, rest - is_less * b
    return np.where(b == 0, 0, quotient if "div" in name else rest)


@pytest.mark.parametrize("dtype", ["int32", "int16", "uint8", "int8", "int64"])
def test_quotients_and_remainders_are_exact(dtype: str) -> None:
    info, random = np.iinfo(dtype), np.random.default_rng(0)
    ends = {info.min, info.min + 1, -7, -2, -1, 0, 1, 2, 3, 5, 7, info.max // 2, info.max - 1, info.max}
    pairs = [[a, b] for a, b in product(sorted(v for v in ends if info.min <= v <= info.max), repeat=2)]
    drawn = random.integers(info.min, info.max, (4000, 2), dtype=dtype).astype("int64")
    near = drawn[:2000] // np.array([1, 2 ** (info.bits // 2)])  # quotients of many digits
    multiples = near[:, 1:] * (near[:, :1] % 5 + 1) + np.array([[-1, 0]])  # one less than a multiple
    values = np.concatenate([np.array(pairs, "int64"), drawn, near, np.stack([multiples[:, 0], near[:, 1]], 1)])
    a, b = values[(values >= info.min).all(1) & (values <= info.max).all(1)].astype(dtype).T.copy()
    x, y = (relay.var(name, shape=(relay.Any(),), dtype=dtype) for name in "xy")
    names = ["divide", "floor_divide", "trunc_mod", "floor_mod"]
    made = relay.Tuple([getattr(relay, name)(x, y) for name in names])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x, y], made), "native"), "cpu")
    for name, result in zip(names, machine.run(a, b), strict=True):
        expected = exact(name, a.astype("int64"), b.astype("int64")).astype(dtype)
        np.testing.assert_array_equal(result.numpy(), expected, err_msg=name)


@pytest.mark.parametrize("operation", ["div", "truncmod", "floordiv", "floormod"])
def test_divisions_of_64_bits_by_floats_are_exact(operation: str) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(0, 63, (20000, 2))
    a, b = (random.integers(-(2**62), 2**62, sizes.shape) >> sizes).T
    b = np.where(b == 0, 1, b)
    near = np.clip(np.abs(2**62 // b), 1, None)
    # Numbers beside multiples, where a quotient changes, and beside powers of two.
    powers = np.array([s * (2**p + d) for p in (0, 1, 10, 31, 52, 53, 54, 62) for d in (-1, 0, 1) for s in (-1, 1)])
    ends = np.array([-(2**63), -(2**63) + 1, 2**63 - 1, *powers[powers != 0]])
    multiples = b * random.integers(-near, near) + random.integers(-1, 2, b.size)
    a = np.concatenate([a, multiples, np.repeat(ends, ends.size)])
    b = np.concatenate([b, b, np.tile(ends, ends.size)])
    is_there = (a != -(2**63)) | (b != -1)  # that quotient is no int64
    a, b = a[is_there], b[is_there]

    x, y = (te.placeholder(a.shape, "int64", name=name) for name in "xy")
    made = te.create_prim_func([x, y, te.compute(a.shape, lambda i: getattr(tirx, operation)(x[i], y[i]))])
    module = tvm.IRModule({"main": with_float_divisions(made, has_wide=True).with_attr("global_symbol", "main")})
    library, result = tvm.compile(module, "llvm"), tvm.runtime.tensor(np.zeros_like(a))
    library["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), result)
    assert "sdiv" not in library.mod.inspect_source("ll") and "srem" not in library.mod.inspect_source("ll")
    name = {"div": "divide", "truncmod": "trunc_mod"}.get(operation, operation)
    np.testing.assert_array_equal(result.numpy(), exact(name, a, b))


@pytest.mark.parametrize(("dtype", "least"), [("int32", "x86-64-v3"), ("int64", "x86-64-v4")])
def test_a_kernel_for_vectors_divides_no_integers(dtype: str, least: str) -> None:
    x, y = (relay.var(name, shape=(256,), dtype=dtype) for name in "xy")
    made = relay.Tuple([relay.divide(x, y), relay.floor_mod(x, y)])

    def code(cpu: str) -> str:
        library = vmkit.compile(relay.Function([x, y], made), f"llvm -mcpu={cpu}").lib
        assert library is not None
        return str(library.inspect_source("ll"))

    assert "sdiv" not in code(least) and "fdiv" in code(least)
    assert "sdiv" in code("x86-64")
