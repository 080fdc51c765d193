"""Kernels know sizes as plain variables, equal ones are one kernel, and values stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

import vmkit
from vmkit import relay
from vmkit.compiler.stages import fused_kernels

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
b, h, w = (tirx.Var(name, "int64") for name in "bhw")
X = relay.var("x", shape=(b, 3, h, w))
CONSTANTS = np.random.default_rng(0)


def weight(*shape: int) -> relay.Constant:
    return relay.const((CONSTANTS.random(shape) - 0.5).astype("float32"))


def strided(count: int) -> relay.Function:
    """Return convolutions with SiLU, of which each halves both sizes."""
    value: relay.Expr = X
    for _ in range(count):
        value = relay.nn.conv2d(value, weight(3, 3, 3, 3), strides=(2, 2), padding=(1, 1))
        value = relay.multiply(value, relay.sigmoid(value))
    return relay.Function([X], value)


def kernels(function: relay.Function, **options: list[str]) -> list[tirx.PrimFunc]:
    with vmkit.PassContext(opt_level=3, **options):
        mod = fused_kernels(function, TARGET)
    return [each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc)]


def sizes(kernel: tirx.PrimFunc) -> list[tirx.Expr]:
    return [size for param in kernel.params if is_buffer_var(param) for size in param.ty.shape]


def is_plain(size: tirx.Expr) -> bool:
    return isinstance(size, tvm.ir.Var | tirx.IntImm)


def run(function: relay.Function, x: np.ndarray, **options: list[str]) -> np.ndarray:
    with vmkit.PassContext(opt_level=3, **options):
        executable = vmkit.compile(function, TARGET)
    return vmkit.VirtualMachine(executable, "cpu").run(x).numpy()


def test_sizes_of_kernels_are_plain_variables() -> None:
    assert all(is_plain(size) for kernel in kernels(strided(3)) for size in sizes(kernel))
    without = kernels(strided(3), disabled_pass=["NameSizes"])
    assert not all(is_plain(size) for kernel in without for size in sizes(kernel))


def test_a_kernel_is_not_given_what_it_does_not_need() -> None:
    assert all(is_buffer_var(param) for kernel in kernels(strided(3)) for param in kernel.params)


def test_kernels_that_differ_in_names_alone_are_one() -> None:
    def pooled(count: int) -> relay.Function:
        value: relay.Expr = X
        for _ in range(count):
            value = relay.nn.max_pool2d(value, (2, 2), (2, 2))
        return relay.Function([X], value)

    assert len(kernels(pooled(4))) == len(kernels(pooled(2)))
    assert len(kernels(pooled(4), disabled_pass=["NameSizes"])) > len(kernels(pooled(4)))


def test_a_kernel_is_one_whatever_its_regions_were_told_in() -> None:
    # TVM notes what a mean over a broadcast sum reads in the sizes before the sum.
    x = relay.var("x", shape=(b, h, w, 8))
    y = relay.var("y", shape=(b, *(tirx.Var(name, "int64") for name in "ij"), 8))
    value, found = x, []
    for _ in range(2):
        value = relay.nn.max_pool2d(value, (1, 1), (2, 2), layout="NHWC")
        total = relay.add(value, y)
        found += [total, relay.nn.global_avg_pool2d(total, layout="NHWC")]
    made = [each for each in kernels(relay.Function([x, y], relay.Tuple(found))) if "adaptive" in each.script()]
    assert len(made) == 1
    assert all(is_buffer_var(param) for param in made[0].params)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(1, 3, 9, 1), (2, 3, 37, 64), (1, 3, 70, 5)])
@pytest.mark.parametrize("disabled", [[], ["GroupKernels"]], ids=["groups", "kernels"])
def test_convolutions_of_halved_sizes_are_what_they_were(shape: tuple[int, ...], disabled: list[str]) -> None:
    x = np.random.default_rng(1).random(shape, "float32")
    function = strided(3)
    expected = run(function, x, disabled_pass=["NameSizes"])
    np.testing.assert_allclose(run(function, x, disabled_pass=disabled), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 7, 16])
def test_a_kernel_is_given_the_sizes_that_its_tensors_do_not_tell(size: int) -> None:
    # Elements are read at distances that the shape of no tensor of the second kernel tells.
    n = tirx.Var("n", "int64")
    x = relay.var("x", shape=(n, 4))
    half = relay.strided_slice(x, [0], [2**31 - 1], [2], axes=[0])
    rows = relay.reshape(relay.nn.softmax(relay.reshape(half, [-1])), [-1, 4])
    body = relay.nn.softmax(relay.reshape(relay.transpose(relay.concatenate([rows, rows], 0), [1, 0]), [-1]))
    given = np.random.default_rng(2).random((size, 4), "float32")

    def softmax(values: np.ndarray) -> np.ndarray:
        return np.exp(values) / np.exp(values).sum()

    chosen = softmax(given[::2].reshape(-1)).reshape(-1, 4)
    expected = softmax(np.concatenate([chosen, chosen]).T.reshape(-1))
    np.testing.assert_allclose(run(relay.Function([x], body), given), expected, rtol=1e-5)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_products_of_a_multiple_of_a_size_by_one_column(size: int) -> None:
    n = tirx.Var("n", "int64")
    # Numbers of its own: those of `weight` depend on what ran before, and now and then a sum of them is near 0.
    values = np.random.default_rng(5).random((1, 96)) - 0.5
    x, y = relay.var("x", shape=(n, 21, 96)), relay.const(values.astype("float32"))
    product = relay.nn.dense(relay.reshape(x, [-1, 96]), y)
    function = relay.Function([x], relay.reshape(product, [-1, 21], allowzero=False))
    given = np.random.default_rng(3).random((size, 21, 96), "float32")
    for disabled in ([], ["NameSizes"]):
        found = run(function, given, disabled_pass=disabled)
        np.testing.assert_allclose(found, (given @ y.data.numpy().T)[..., 0], rtol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_kernel_that_is_written_out_takes_sizes_by_name(size: int) -> None:
    # Attention is one kernel of loops without blocks; every other row is a size that is no plain variable.
    n = tirx.Var("n", "int64")
    x = relay.var("x", shape=(1, n, 2, 16))
    rows = relay.transpose(relay.strided_slice(x, [0], [2**31 - 1], [2], axes=[1]), [0, 2, 1, 3])
    flat = relay.reshape(rows, [2, -1, 16])
    scores = relay.nn.softmax(relay.nn.batch_matmul(flat, flat))
    body = relay.nn.batch_matmul(scores, flat, transpose_b=False)
    given = np.random.default_rng(4).random((1, size, 2, 16), "float32")
    values = given[0, ::2].transpose(1, 0, 2)
    weights = np.exp(values @ values.transpose(0, 2, 1))
    expected = weights / weights.sum(-1, keepdims=True) @ values
    np.testing.assert_allclose(run(relay.Function([x], body), given), expected, rtol=1e-5)
    executable = vmkit.compile(relay.Function([x], body), TARGET)
    assert any("attention" in name for name in executable.primitive_ops)
