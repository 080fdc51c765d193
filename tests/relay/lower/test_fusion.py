"""What follows a kernel element by element is computed in it."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay

n = tvm.tirx.Var("n", "int64")
RNG = np.random.default_rng(0)


def constant(*shape: int) -> relay.Constant:
    return relay.const(RNG.uniform(0.5, 1.5, shape).astype("float32"))


def conv_bn_relu(x: relay.Var) -> relay.Expr:
    conv = relay.nn.conv2d(x, constant(8, 4, 3, 3), channels=8, kernel_size=(3, 3), padding=(1, 1))
    return relay.nn.relu(relay.nn.batch_norm(conv, *[constant(8) for _ in range(4)])[0])


def conv_bias_residual(x: relay.Var) -> relay.Expr:
    conv = relay.nn.conv2d(x, constant(4, 4, 1, 1), channels=4, kernel_size=(1, 1))
    return relay.nn.relu(relay.nn.bias_add(conv, constant(4)) + x)


def dense_bias_activation(x: relay.Var) -> relay.Expr:
    flat = relay.reshape(x, (-1, 64))
    return relay.tanh(relay.nn.bias_add(relay.nn.dense(flat, constant(10, 64)), constant(10)))


def chain(x: relay.Var) -> relay.Expr:
    for _ in range(10):
        x = relay.nn.relu(x + constant(4, 4))
    return x


@pytest.mark.sweep
@pytest.mark.parametrize("program", [conv_bn_relu, conv_bias_residual, dense_bias_activation, chain])
@pytest.mark.parametrize("batch", [n, 2])
def test_a_chain_after_a_kernel_is_one_kernel(program: object, batch: object) -> None:
    x = relay.var("x", shape=(batch, 4, 4, 4))
    function = relay.Function([x], program(x))
    fused = vmkit.compile(function, target="llvm")
    # A convolution computes with channels last; the data comes and goes as the program says.
    apart = ("shape_func", "layout_transform")
    assert len([name for name in fused.primitive_ops if not name.startswith(apart)]) == 1
    with vmkit.PassContext(opt_level=0):
        plain = vmkit.compile(function, target="llvm")
    assert len(plain.primitive_ops) > len(fused.primitive_ops)
    values = RNG.standard_normal((2, 4, 4, 4)).astype("float32")
    results = [vmkit.VirtualMachine(exe).run(values).numpy() for exe in (fused, plain)]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_a_field_of_a_field_is_no_kernel() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%p: ((float32,),)) { let %q = %p.0; %q.0 }'
    machine = vmkit.VirtualMachine(vmkit.compile(relay.fromtext(text), "llvm"), "cpu", num_threads=1)
    assert machine.run(((1.5,),)).numpy() == 1.5
