"""Arrays from outside go to kernels where they are: by value, and by address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import vmkit
from vmkit import relay
from vmkit.executable.executable import Executable
from vmkit.runtime.machine import VirtualMachine
from vmkit.target.llvm import architecture, default_triple, host_features
from vmkit.values.element_types import ELEMENTS, element_bytes

OFFSETS = (0, 1, 2, 3, 4, 5, 8, 16, 17, 32, 63)
"""In elements, after a 64-byte boundary."""

_WIDE = [cpu for cpu, feature in {"haswell": "avx2", "rocketlake": "avx512f"}.items() if host_features().get(feature)]
CPUS = ["x86-64", *_WIDE] if architecture(default_triple()) == "x86_64" else ["generic"]


def at(offset: int, array: np.ndarray) -> np.ndarray:
    """Return a copy of an array that begins `offset` elements after a 64-byte boundary."""
    memory = np.zeros(array.nbytes + 64 * (1 + array.itemsize), "uint8")
    start = -memory.ctypes.data % 64 + offset * array.itemsize
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def rounded(array: np.ndarray) -> np.ndarray:
    return (array * 8).astype("int8").astype(array.dtype)


class Foreign:
    """An array of another library, as far as DLPack goes."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def network(batch: Any) -> tuple[relay.Function, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]:
    """A convolution, a sum and a product with weights, over whole numbers so that every order of adding is exact."""
    generator = np.random.default_rng(0)
    kernel = generator.integers(-3, 4, (16, 8, 1, 1)).astype("float32")
    weight = generator.integers(-3, 4, (24, 16 * 36)).astype("float32")
    x = relay.var("x", shape=(batch, 8, 6, 6))
    hidden = relay.nn.relu(relay.nn.conv2d(x, relay.const(kernel)))
    body = relay.nn.dense(relay.nn.batch_flatten(hidden), relay.const(weight))

    def reference(value: np.ndarray) -> np.ndarray:
        found = np.maximum(np.einsum("nchw,oc->nohw", value, kernel[:, :, 0, 0]), 0)
        return found.reshape(len(value), -1) @ weight.T

    return relay.Function([x], body), (3, 8, 6, 6), reference


def elementwise(batch: Any) -> tuple[relay.Function, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]:
    x = relay.var("x", shape=(batch, 130))
    body = relay.nn.relu(x * relay.const(2.0) + relay.const(1.0)) + relay.sum(x, axis=[1], keepdims=True)
    return relay.Function([x], body), (3, 130), lambda value: np.maximum(2 * value + 1, 0) + value.sum(1, keepdims=True)


def product(batch: Any) -> tuple[relay.Function, tuple[int, ...], Callable[[np.ndarray], np.ndarray]]:
    """Both operands of the product come from outside."""
    x = relay.var("x", shape=(batch, 33))
    return relay.Function([x], relay.nn.dense(x, x)), (7, 33), lambda value: value @ value.T


@pytest.mark.sweep
@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("batch", ["static", "any"])
@pytest.mark.parametrize("build", [network, elementwise, product], ids=lambda build: build.__name__)
def test_kernels_read_from_every_address(build: Any, batch: str, cpu: str) -> None:
    shape = build(1)[1]
    function, _, reference = build(relay.Any() if batch == "any" else shape[0])
    machine = VirtualMachine(vmkit.compile(function, target=f"llvm -mcpu={cpu}"))
    x = rounded(np.random.default_rng(1).standard_normal(shape).astype("float32"))
    for offset in OFFSETS:
        given = at(offset, x)
        for form in (given, tvm_ffi.from_dlpack(given), Foreign(given)):
            np.testing.assert_array_equal(machine.run(form).numpy(), reference(x))


def identity(dtype: str, rank: int) -> VirtualMachine:
    x = relay.var("x", shape=(relay.Any(),) * rank, dtype=dtype)
    y = relay.var("y", shape=())
    return VirtualMachine(vmkit.compile(relay.Function([x, y], relay.Tuple([x, y])), target="llvm"))


DTYPES = ("bool", "int8", "uint8", "int16", "float16", "int32", "float32", "int64", "uint64", "float64")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_array_goes_in_and_out_without_a_copy(dtype: str) -> None:
    machine, one = identity(dtype, 2), np.ones((), "float32")
    for offset in OFFSETS:
        x = at(offset, np.arange(6).reshape(2, 3).astype(dtype))
        for given in (x, tvm_ffi.from_dlpack(x)):
            result = machine.run(given, one)[0]
            assert result.data_ptr() == x.ctypes.data
        back = np.from_dlpack(result)
        assert np.shares_memory(back, x)
        np.testing.assert_array_equal(back, x)


def test_a_scalar_array_goes_in_without_a_copy() -> None:
    machine = identity("float32", 0)
    x = at(3, np.array(2.5, "float32"))
    result = machine.run(x, x)[0]
    assert result.data_ptr() == x.ctypes.data and result.shape == () and result.numpy() == 2.5


LAYOUTS = {
    "rows apart": lambda a: np.repeat(a, 2, axis=0)[::2],
    "columns apart": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "fortran order": np.asfortranarray,
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "repeated": lambda a: np.broadcast_to(a[:1], a.shape),
    "foreign byte order": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "between elements": lambda a: (
        np.frombuffer(bytearray(b"-" + a.tobytes()), "uint8")[1:].view(a.dtype).reshape(a.shape)
    ),
    "no rows": lambda a: a[:0],
    "no columns": lambda a: a[:, :0],
    "one column": lambda a: a[:, :1],
}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "foreign byte order"])
def test_every_layout_gives_its_values(layout: str) -> None:
    n, m = relay.Any(), relay.Any()
    x = relay.var("x", shape=(n, m))
    machine = VirtualMachine(vmkit.compile(relay.Function([x], x * relay.const(2.0)), target="llvm"))
    given = LAYOUTS[layout](np.arange(1, 13, dtype="float32").reshape(3, 4))
    before = given.copy()
    for _ in range(3):
        np.testing.assert_array_equal(machine.run(given).numpy(), 2 * before)
    machine.set_input("main", given)
    np.testing.assert_array_equal(machine.run().numpy(), 2 * before)
    np.testing.assert_array_equal(given, before)


def test_another_byte_order_is_refused() -> None:
    machine = identity("float32", 2)
    given = LAYOUTS["foreign byte order"](np.ones((2, 2), "float32"))
    with pytest.raises(vmkit.errors.InputError, match=r"dtype >f4, expected float32"):
        machine.run(given, np.ones((), "float32"))


def test_an_executable_says_what_its_kernels_expect(tmp_path: Any) -> None:
    x = relay.var("x", shape=(4,))
    exe = vmkit.compile(relay.Function([x], x + x), target="llvm")
    exe.export(tmp_path / "model.vmx")
    code, lib = exe.save()
    for one in (exe, vmkit.load(tmp_path / "model.vmx"), Executable.load_exec(code, lib)):
        assert one.info["alignment"] == ELEMENTS
    c = vmkit.compile(relay.Function([x], x + x), target="c")
    assert "alignment" not in c.info


@pytest.mark.parametrize("offset", OFFSETS)
def test_kernels_that_expect_more_get_an_aligned_copy(offset: int) -> None:
    x = relay.var("x", shape=(relay.Any(),))
    exe = vmkit.compile(relay.Function([x], relay.Tuple([x, x + x])), target="llvm")
    strict = Executable(exe.mod, exe.signatures, exe.target)
    given = at(offset, np.arange(100, dtype="float32"))
    same, double = VirtualMachine(strict).run(given)
    assert same.data_ptr() % 64 == 0 and (same.data_ptr() == given.ctypes.data) == (offset % 16 == 0)
    np.testing.assert_array_equal(double.numpy(), 2 * given)


@pytest.mark.parametrize(("dtype", "size"), [("bool", 1), ("int4", 1), ("bfloat16", 2), ("float32", 4), ("int64", 8)])
def test_the_bytes_of_an_element(dtype: str, size: int) -> None:
    assert element_bytes(dtype) == size
