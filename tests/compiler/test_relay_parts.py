"""Parts of Relax programs with convolutions, which are compiled as Relay: values, and where they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import vmkit
from vmkit.compiler.relay_operators import CONVERTERS

OP = relax.op
Emit = Callable[[relax.Expr], relax.Expr]
AVX = "llvm -mattr=+avx2,+fma"


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def program(make: Callable[..., relax.Expr], *shapes: tuple[Any, ...], of: str = "float32") -> Any:
    """Return a program of a dataflow block in which `make` emits bindings."""
    params = [relax.Var(f"p{at}", relax.TensorType(shape, of)) for at, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            made = make(builder.emit, *params)
            every = made if isinstance(made, list) else [made]
            results = [builder.emit_output(each) for each in every]
        builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return builder.get()


def convolved(emit: Emit, x: relax.Expr, inner: int, outer: int, size: int = 1) -> relax.Expr:
    weight = numbers(outer, inner, size, size, seed=inner + outer) / np.float32(size * inner**0.5)
    y = emit(OP.nn.conv2d(x, relax.const(weight), padding=size // 2))
    bias = emit(OP.reshape(relax.const(numbers(outer, seed=3)), (1, outer, 1, 1)))
    return emit(OP.add(y, bias))


def normalized(emit: Emit, x: relax.Expr, channels: int) -> relax.Expr:
    parts = [relax.const(np.abs(numbers(channels, seed=seed)) + 0.5) for seed in range(4)]
    return emit(relax.TupleGetItem(emit(OP.nn.batch_norm(x, *parts, axis=1, training=False)), 0))


def agrees(mod: Any, *data: np.ndarray) -> list[str]:
    """Compare results with those of the program without parts, and return the operators of the one with them."""
    with vmkit.PassContext(opt_level=0):
        plain = vmkit.compile(mod, AVX)
    executable = vmkit.compile(mod, AVX)
    every = [vmkit.VirtualMachine(each, "cpu").run(*data) for each in (executable, plain)]
    made, expected = ([r.numpy() for r in (each if isinstance(each, (list, tuple)) else [each])] for each in every)
    for one, other in zip(made, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return sorted(executable.primitive_ops)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_network_of_relax_is_as_fast_as_relays(is_known: bool) -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.nn.relu(normalized(emit, convolved(emit, x, 3, 32, 3), 32)))
        gate = emit(
            OP.divide(emit(OP.clip(emit(OP.add(y, relax.const(np.float32(3)))), 0, 6)), relax.const(np.float32(6)))
        )
        y = convolved(emit, emit(OP.multiply(y, gate)), 32, 32, 3)
        y = emit(OP.nn.max_pool2d(y, (2, 2), (2, 2)))
        return emit(OP.mean(convolved(emit, y, 32, 48), [2, 3], keepdims=True))

    batch: Any = 2 if is_known else tirx.Var("n", "int64")
    names = agrees(program(network, (batch, 3, 24, 24)), numbers(2, 3, 24, 24))
    assert any("winograd" in name for name in names)
    assert any("packed_gemm" in name for name in names)
    assert not any("batch_norm" in name or "divide" in name for name in names)


UNARY: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "relax.sigmoid": OP.sigmoid,
    "relax.tanh": OP.tanh,
    "relax.exp": OP.exp,
    "relax.sqrt": OP.sqrt,
    "relax.negative": OP.negative,
    "relax.abs": OP.abs,
    "relax.erf": OP.erf,
    "relax.nn.relu": OP.nn.relu,
    "relax.nn.silu": OP.nn.silu,
    "relax.nn.leakyrelu": lambda x: OP.nn.leakyrelu(x, 0.2),
    "relax.clip": lambda x: OP.clip(x, -0.5, 0.25),
    "relax.mean": lambda x: OP.mean(x, [1, -1]),
    "relax.permute_dims": lambda x: OP.permute_dims(x, [0, 2, 3, 1]),
    "relax.reshape": lambda x: OP.reshape(x, (x.ty.shape[0], 16 * 12, 12)),
    "relax.concat": lambda x: OP.concat([x, x], axis=1),
    "relax.nn.max_pool2d": lambda x: OP.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 0, 1, 0), ceil_mode=True),
    "relax.nn.avg_pool2d": lambda x: OP.nn.avg_pool2d(x, (3, 3), (2, 2), padding=(1, 1), count_include_pad=True),
    "relax.nn.adaptive_avg_pool2d": lambda x: OP.nn.adaptive_avg_pool2d(x, (5, 3)),
    "relax.nn.conv1d": lambda x: OP.nn.conv1d(
        OP.mean(x, 3), relax.const(numbers(24, 8, 3)), strides=2, padding=(0, 2), groups=2
    ),
    "relax.nn.conv2d_transpose": lambda x: OP.nn.conv2d_transpose(
        x, relax.const(numbers(16, 6, 3, 2)), strides=(2, 3), padding=(1, 0, 0, 1), output_padding=(1, 0), groups=2
    ),
    "relax.nn.conv2d": lambda x: OP.nn.conv2d(
        x, relax.const(numbers(16, 1, 3, 3)), strides=(2, 1), padding=(0, 1, 2, 1), dilation=(1, 2), groups=16
    ),
}
BINARY = {
    f"relax.{name}": getattr(OP, name) for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
}


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_each_operator_gives_what_relaxs_gives(name: str) -> None:
    def network(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        x = convolved(emit, x, 4, 16)
        if name in BINARY:
            return emit(BINARY[name](x, y))
        return emit(UNARY[name](emit(OP.abs(x)) if name == "relax.sqrt" else x))

    n = tirx.Var("n", "int64")
    mod = program(network, (n, 4, 12, 12), (n, 16, 12, 12))
    names = agrees(mod, numbers(3, 4, 12, 12), numbers(3, 16, 12, 12, seed=8))
    assert not any("conv2d_reshape_tensor_add" in name for name in names)  # as Relax has the first layer


def test_every_operator_has_a_test() -> None:
    assert {*UNARY, *BINARY, "relax.nn.batch_norm"} == set(CONVERTERS)


def test_parts_end_where_relay_has_no_operator_and_give_several_results() -> None:
    def network(emit: Emit, x: relax.Expr) -> list[relax.Expr]:
        first = convolved(emit, x, 4, 16, 3)
        wide = emit(OP.nn.relu(first))
        whole = emit(OP.astype(wide, "int32"))  # is no part of one
        last = convolved(emit, emit(OP.multiply(wide, emit(OP.astype(whole, "float32")))), 16, 16)
        return [emit(OP.add(last, first)), wide, whole]

    n = tirx.Var("n", "int64")
    names = agrees(program(network, (n, 4, 12, 12)), numbers(2, 4, 12, 12))
    assert not any("reshape_tensor" in name for name in names)
    assert any("cast" in name for name in names)


def test_what_does_not_wait_for_a_part_stands_before_it() -> None:
    def network(emit: Emit, x: relax.Expr, y: relax.Expr) -> relax.Expr:
        first = convolved(emit, x, 32, 32, 3)
        other = emit(OP.astype(emit(OP.astype(y, "int32")), "float32"))
        return emit(OP.nn.relu(emit(OP.add(first, other))))

    shapes = ((1, 32, 28, 28), (1, 32, 28, 28))
    names = agrees(program(network, *shapes), *(numbers(*shape, seed=at) for at, shape in enumerate(shapes)))
    assert not any("relu" in name for name in names)  # it is of the kernel of the convolution


def test_other_programs_stay_as_they_are() -> None:
    def of_weights(emit: Emit, x: relax.Expr, weight: relax.Expr) -> relax.Expr:
        return emit(OP.nn.relu(emit(OP.nn.conv2d(x, weight))))

    shapes = ((1, 4, 6, 6), (8, 4, 3, 3))
    assert agrees(program(of_weights, *shapes), *(numbers(*shape) for shape in shapes)) == ["fused_conv2d_relu"]
