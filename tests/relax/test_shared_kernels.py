"""At level 1 kernels that differ in sizes alone are one, and values stay what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

import vmkit
from vmkit import relay
from vmkit.compiler.stages import fused_kernels

TARGET = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
SIZES = ((2, 5, 8), (1, 7, 20), (3, 4, 32))
INPUTS = [np.random.default_rng(0).standard_normal(shape).astype("float32") for shape in SIZES]


def program(layer: Callable[[relay.Expr, int], relay.Expr]) -> relay.Function:
    """Return what a layer makes of an input of each of the sizes."""
    inputs = [relay.var(f"x{i}", shape=shape) for i, shape in enumerate(SIZES)]
    return relay.Function(inputs, relay.Tuple([layer(x, i) for i, x in enumerate(inputs)]))


def joined(x: relay.Expr, _: int) -> relay.Expr:
    return relay.concatenate([x, relay.nn.relu(x), x], axis=2)


def scaled(x: relay.Expr, at: int) -> relay.Expr:
    per_channel = relay.const(np.arange(SIZES[at][2], dtype="float32"))
    return relay.tanh(relay.add(relay.multiply(x, per_channel), per_channel))


def turned(x: relay.Expr, _: int) -> relay.Expr:
    return relay.transpose(x, [2, 0, 1])


def sliced(x: relay.Expr, at: int) -> relay.Expr:
    """Where it begins is no extent of anything."""
    return relay.strided_slice(x, [0, 0, at + 1], [1, 4, 7])


def padded(x: relay.Expr, _: int) -> relay.Expr:
    return relay.nn.pad(x, ((0, 0), (1, 2), (1, 1)), 0.0)


def pooled(x: relay.Expr, _: int) -> relay.Expr:
    return relay.nn.max_pool1d(x, pool_size=3, strides=1, padding=(1, 1), layout="NWC")


def summed(x: relay.Expr, _: int) -> relay.Expr:
    return relay.sum(x, axis=[2])


def kernels(function: relay.Function, level: int, disabled: Sequence[str] = ()) -> list[tirx.PrimFunc]:
    with vmkit.PassContext(opt_level=level, disabled_pass=list(disabled)):
        mod = fused_kernels(function, TARGET)
    return [each for each in mod.functions.values() if isinstance(each, tirx.PrimFunc)]


def run(function: relay.Function, level: int) -> list[np.ndarray]:
    with vmkit.PassContext(opt_level=level):
        executable = vmkit.compile(function, TARGET)
    return [each.numpy() for each in vmkit.VirtualMachine(executable, "cpu").run(*INPUTS)]


@pytest.mark.parametrize(
    ("layer", "count"), [(joined, 1), (scaled, 1), (turned, 1), (padded, 1), (pooled, 1), (sliced, 3), (summed, 3)]
)
def test_kernels_that_differ_in_sizes_alone_are_one(layer: Callable[[relay.Expr, int], relay.Expr], count: int) -> None:
    function = program(layer)
    assert len(kernels(function, 1)) == count
    assert len(kernels(function, 2)) == len(kernels(function, 1, ["ShareKernels"])) == 3
    for made, expected in zip(run(function, 1), run(function, 2), strict=True):
        np.testing.assert_allclose(made, expected, rtol=1e-5, atol=1e-6)


def test_values_are_numpys() -> None:
    made = run(program(lambda x, at: joined(scaled(x, at), at)), 1)
    for x, y in zip(INPUTS, made, strict=True):
        channels = np.arange(x.shape[2], dtype="float32")
        z = np.tanh(x * channels + channels)
        np.testing.assert_allclose(y, np.concatenate([z, np.maximum(z, 0), z], axis=2), rtol=1e-5, atol=1e-6)


def test_extents_that_do_not_differ_stay_known() -> None:
    x, y = relay.var("x", shape=(1, 5, 8)), relay.var("y", shape=(1, 9, 8))
    (kernel,) = kernels(relay.Function([x, y], relay.Tuple([relay.exp(x), relay.exp(y)])), 1)
    shapes = [list(param.ty.shape) for param in kernel.params if is_buffer_var(param)]
    assert [[isinstance(size, tvm.ir.Var) for size in shape] for shape in shapes] == [[False, True, False]] * 2
    assert shapes[0][1].same_as(shapes[1][1])


def test_unknown_sizes_are_left_as_they_are() -> None:
    n = tirx.Var("n", "int64")
    x, y = relay.var("x", shape=(n, 8)), relay.var("y", shape=(n, 9))
    function = relay.Function([x, y], relay.Tuple([relay.exp(x), relay.exp(y)]))
    assert len(kernels(function, 1)) == len(kernels(function, 1, ["ShareKernels"]))
