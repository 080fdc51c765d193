"""Programs of Relax of which parts become Relay, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

import vmkit

__all__ = ["AVX", "OP", "Emit", "agrees", "convolved", "normalized", "numbers", "program"]

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
