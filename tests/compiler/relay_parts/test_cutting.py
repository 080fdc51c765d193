"""Parts of Relax programs that are compiled as Relay: what they gain, and where they end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from tests.compiler.relay_parts.programs import OP, Emit, agrees, convolved, normalized, numbers, program


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


B, N, HEADS, INNER = 2, 9, 4, 16


def test_a_transformer_of_relax_is_one_part_with_fused_attention() -> None:
    """A layer as PyTorch writes it, of any batch and length; scales of both factors, a mask, no weight for nothing."""

    def network(emit: Emit, x: relax.Expr, mask: relax.Expr) -> relax.Expr:
        b, n, width = x.ty.shape
        infinite, factor = relax.const(np.float32(-np.inf)), relax.const(np.float32(0.5))

        def linear(data: relax.Expr, inner: int, outer: int) -> relax.Expr:
            weight = emit(OP.permute_dims(relax.const(numbers(outer, inner, seed=outer) / np.float32(inner**0.5))))
            rows = emit(OP.matmul(emit(OP.reshape(data, (b * n, inner))), weight))
            return emit(OP.reshape(emit(OP.add(relax.const(numbers(outer)), rows)), (b, n, outer)))

        def heads(data: relax.Expr) -> relax.Expr:
            return emit(OP.permute_dims(emit(OP.reshape(data, (b, n, HEADS, INNER))), [0, 2, 1, 3]))

        scale, shift = (relax.const(numbers(HEADS * INNER, seed=seed)) for seed in (1, 2))
        wide = linear(emit(OP.nn.layer_norm(x, scale, shift, [-1])), HEADS * INNER, 3 * HEADS * INNER)
        whole = emit(OP.split(wide, 3, 2))
        q, k, v = (heads(emit(relax.TupleGetItem(whole, at))) for at in range(3))
        keys = emit(OP.multiply(emit(OP.permute_dims(k, [0, 1, 3, 2])), factor))
        scores = emit(OP.matmul(emit(OP.multiply(q, factor)), keys))
        least = emit(OP.where(emit(OP.greater(mask, relax.const(np.float32(0)))), relax.const(np.float32(0)), infinite))
        scores = emit(OP.add(scores, least))
        is_nothing = emit(OP.equal(emit(OP.max(scores, -1, keepdims=True)), infinite))
        weights = emit(OP.where(is_nothing, relax.const(np.float32(0)), emit(OP.nn.softmax(scores))))
        mixed = emit(OP.permute_dims(emit(OP.matmul(weights, v)), [0, 2, 1, 3]))
        x = emit(OP.add(x, linear(emit(OP.reshape(mixed, (b, n, width))), HEADS * INNER, HEADS * INNER)))
        return emit(OP.add(x, linear(emit(OP.nn.gelu(linear(x, HEADS * INNER, 128))), 128, HEADS * INNER)))

    b, n = (tirx.Var(name, "int64") for name in "bn")
    mask = numbers(B, 1, N, N)
    mask[0, 0, 3] = -1  # a row without a weight
    names = agrees(program(network, (b, n, HEADS * INNER), (b, 1, n, n)), numbers(B, N, HEADS * INNER), mask)
    assert "attention" in names
    assert not any("softmax" in name or "matmul" in name for name in names)


def test_what_is_made_of_constants_and_a_size_belongs_to_one_part() -> None:
    def network(emit: Emit, x: relax.Expr) -> list[relax.Expr]:
        first = emit(OP.nn.relu(convolved(emit, x, 4, 16)))
        many = emit(OP.broadcast_to(relax.const(numbers(1, 16, 1, 1)), (x.ty.shape[0], 16, 1, 1)))
        whole = emit(OP.astype(emit(OP.mean(first, [0])), "int32"))  # no part, and of no unknown size
        rows = emit(OP.matmul(emit(OP.astype(whole, "float32")), relax.const(numbers(12, 7))))
        return [first, emit(OP.add(emit(OP.nn.relu(many)), rows))]

    agrees(program(network, (tirx.Var("n", "int64"), 4, 12, 12)), numbers(2, 4, 12, 12))
