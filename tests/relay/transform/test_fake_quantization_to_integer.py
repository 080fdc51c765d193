"""FakeQuantizationToInteger: the integers are those of the reals, and what cannot be done stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.errors import OptionError
from vmkit.relay import const, nn
from vmkit.relay.op.attached import attached
from vmkit.relay.transform import FakeQuantizationToInteger
from vmkit.relay.transform.fake_quantization_to_integer import approx_equal, register_unary_identity

RANDOM = np.random.default_rng(14)


def integers(name: str, *shape: int, dtype: str = "int8") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def reals(q: Any, scale: Any = 0.5, zero_point: Any = 0, axis: int = -1) -> Any:
    return relay.qnn.dequantize(q, const(np.float32(scale)), const(np.int32(zero_point)), axis=axis)


def quantized(x: Any, scale: Any = 0.25, zero_point: Any = 0, dtype: str = "int8", axis: int = -1) -> Any:
    return relay.qnn.quantize(x, const(np.float32(scale)), const(np.int32(zero_point)), axis=axis, out_dtype=dtype)


def values(function: relay.Function) -> list[np.ndarray]:
    made = []
    for v in function.params:
        limits = np.iinfo(v.type_annotation.dtype)
        low, high = (limits.min, limits.max) if limits.bits == 8 else (-9000, 9000)
        made.append(RANDOM.integers(low, high, v.type_annotation.concrete_shape, endpoint=True).astype(limits.dtype))
    return made


def run(function: relay.Function, args: list[np.ndarray]) -> np.ndarray:
    program = vmkit.compile(tvm.IRModule({"main": function}), target="llvm")
    return vmkit.VirtualMachine(program, "cpu").run(*args).numpy().astype("int64")


def assert_integers_agree(expr: Any, most: int = 1, dequantizations: int = 0) -> relay.Function:
    """Assert that a program is computed with integers, and gives the same up to a number of quanta."""
    before = module(expr)["main"]
    changed = after(FakeQuantizationToInteger(hard_fail=True), expr)
    assert operators(changed).count("qnn.dequantize") == dequantizations
    assert changed.body.checked_type.dtype == before.body.checked_type.dtype
    args = values(before)
    assert np.abs(run(changed, args) - run(before, args)).max(initial=0) <= most
    return changed


X = integers("x", 1, 4, 6, 6)
UNSIGNED = integers("u", 1, 4, 6, 6, dtype="uint8")
WEIGHT = integers("w", 8, 4, 3, 3)
SCALES = RANDOM.uniform(0.01, 0.02, 8)
BY_CHANNEL = np.array([0.5, 0.25, 1.0, 2.0])

CASES: dict[str, Callable[[], Any]] = {
    "reshape": lambda: relay.reshape(reals(X), (4, 36)),
    "squeeze": lambda: relay.squeeze(reals(X), [0]),
    "strided_slice": lambda: relay.strided_slice(reals(X), [0, 1, 0, 0], [1, 3, 5, 6]),
    "transpose": lambda: relay.transpose(reals(X), [0, 2, 3, 1]),
    "expand_dims": lambda: relay.expand_dims(reals(X), 1),
    "max_pool2d": lambda: nn.max_pool2d(reals(X), (2, 2)),
    "batch_flatten": lambda: nn.batch_flatten(reals(X)),
    "depth_to_space": lambda: nn.depth_to_space(reals(X), 2),
    "max": lambda: relay.max(reals(X), axis=1),
    "min": lambda: relay.min(reals(X), axis=[2, 3]),
    "broadcast_to": lambda: relay.broadcast_to(reals(X), (3, 4, 6, 6)),
    "resize2d": lambda: relay.image.resize2d(reals(X), (3, 3), method="nearest_neighbor"),
    "split": lambda: relay.split(reals(X), 2, axis=1)[1],
    "concatenate": lambda: relay.concatenate([reals(X), reals(integers("y", 1, 2, 6, 6), 1.0, 3)], axis=1),
    "topk": lambda: relay.topk(reals(X), 2, ret_type="values"),
    "take": lambda: relay.take(reals(X), const([2, 0]), axis=1),
    "pad": lambda: nn.pad(reals(X, 0.5, 7), ((0, 0), (0, 0), (1, 1), (2, 0)), 1.5),
    "avg_pool2d": lambda: nn.avg_pool2d(reals(X, 0.5, 7), (2, 2), padding=(1, 1), count_include_pad=True),
    "global_avg_pool2d": lambda: nn.global_avg_pool2d(reals(X)),
    "adaptive_avg_pool1d": lambda: nn.adaptive_avg_pool1d(reals(integers("x", 1, 4, 8)), 2),
    "mean": lambda: relay.mean(reals(X, 0.25), axis=[2, 3]),
    "conv2d": lambda: nn.conv2d(reals(X, 0.1, 3), reals(WEIGHT, 0.02), padding=(1, 1)),
    "conv2d_by_channel": lambda: nn.conv2d(reals(X, 0.1, 3), reals(WEIGHT, SCALES, [1] * 8, 0), padding=(1, 1)),
    "conv2d_transpose": lambda: nn.conv2d_transpose(
        reals(X, 0.1), reals(integers("w", 4, 2, 3, 3), 0.02), channels=2, kernel_size=(3, 3)
    ),
    "dense": lambda: nn.dense(reals(integers("x", 5, 9), 0.1, -3), reals(integers("w", 8, 9), SCALES, [0] * 8, 0)),
    "batch_matmul": lambda: nn.batch_matmul(reals(integers("x", 2, 5, 9), 0.1), reals(integers("y", 2, 3, 9), 0.05)),
    "batch_matmul_not_transposed": lambda: nn.batch_matmul(
        reals(integers("x", 2, 5, 9), 0.1), reals(integers("y", 2, 9, 3), 0.05), transpose_b=False
    ),
    "add": lambda: reals(X) + reals(integers("y", 4, 1, 1), 0.75, 2),
    "subtract": lambda: reals(X) - reals(integers("y", 1, 4, 6, 6), 0.75, 2),
    "multiply": lambda: reals(X, 0.1) * reals(integers("y", 1, 4, 6, 6), 0.1, 2),
    "minimum": lambda: relay.minimum(reals(X), reals(integers("y", 4, 1, 1), 0.75, 2)),
    "maximum": lambda: relay.maximum(reals(X), reals(integers("y", 4, 1, 1), 0.75, 2)),
    "add_by_channel": lambda: reals(X, BY_CHANNEL, [0] * 4, 1) + reals(integers("y", 1, 4, 6, 6), 0.75, 2),
    "add_constant": lambda: reals(X) + const(3.5),
    "add_constant_that_saturates": lambda: reals(X, 0.1) + const(np.float32([[90]] * 4)[..., None]),
    "subtract_constant_from": lambda: const(2.0) - reals(UNSIGNED, 0.5, 128),
    "relu": lambda: nn.relu(reals(UNSIGNED, 0.5, 100)),
    "relu_by_channel": lambda: nn.relu(reals(UNSIGNED, [0.5] * 4, [90, 100, 110, 120], 1)),
    "leaky_relu": lambda: nn.leaky_relu(reals(X, 0.25), 0.3),
    "clip": lambda: relay.clip(reals(UNSIGNED, 0.5, 100), -1.0, 6.0),
    "clip_by_channel": lambda: relay.clip(reals(X, BY_CHANNEL, [0, 1, 2, 3], 1), -2.0, 6.0),
    **{
        name: lambda name=name: getattr(relay, name)(reals(X, 0.02, -128))  # type: ignore[misc]
        for name in ("abs", "erf", "exp", "sigmoid", "sqrt", "tanh")
    },
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_the_same_with_integers(name: str) -> None:
    assert_integers_agree(quantized(CASES[name](), 0.125, 3))


def test_a_bias_is_added_to_the_sums() -> None:
    for bias in (const(np.float32(RANDOM.uniform(-5, 5, 8))), reals(integers("b", 8, dtype="int32"), 0.001)):
        for scale, axis in ((0.02, -1), (SCALES, 0)):
            product = nn.conv2d(reals(X, 0.1, 3), reals(WEIGHT, scale, [0] * 8 if axis == 0 else 0, axis))
            # What a bias has of its own is put into the scales of the channels.
            is_put = axis == 0 and not isinstance(bias, relay.Constant)
            changed = assert_integers_agree(quantized(nn.bias_add(product, bias), 0.5), 1, int(is_put))
            assert "nn.bias_add" in operators(changed) and "qnn.add" not in operators(changed)


def test_a_bias_of_narrow_integers_does_not_wrap_around() -> None:
    assert_integers_agree(quantized(nn.bias_add(reals(X, 0.5, 20), const(np.float32([60, -60, 1, 0]))), 1.0))


def test_the_sum_of_a_product_and_its_bias_stays_in_32_bits() -> None:
    product = nn.dense(reals(integers("x", 5, 9), 2.0), reals(integers("w", 8, 9), SCALES, [0] * 8, 0))
    bias = reals(integers("b", 8, dtype="int32"), 2.0 * SCALES.astype("float32"), [0] * 8)
    changed = assert_integers_agree(quantized(product + bias, 4.0))
    assert operators(changed) == ["qnn.dense", "add", "qnn.requantize"]


def test_a_chain_keeps_its_scales_through_movement() -> None:
    moved = relay.transpose(reals(integers("x", 1, 6, 6, 4), BY_CHANNEL, [0] * 4, 3), [0, 3, 1, 2])
    changed = assert_integers_agree(quantized(relay.squeeze(nn.max_pool2d(moved, (2, 2)), [0]), 0.5))
    assert changed.body.attrs.axis == 0


@pytest.mark.parametrize(
    "expr",
    [
        pytest.param(lambda: relay.reshape(reals(X, BY_CHANNEL, [0] * 4, 1), (4, 36)), id="mixed channels"),
        pytest.param(lambda: relay.cos(reals(X)), id="no rule"),
        pytest.param(lambda: reals(X) + reals(X, 0.75), id="one tensor in two ways"),
        pytest.param(lambda: nn.conv2d(reals(X), reals(WEIGHT, BY_CHANNEL, [0] * 4, 1)), id="scales of inputs"),
        pytest.param(lambda: nn.dense(*[reals(integers(n, 5, 9)) for n in "xy"]) * const(0.1), id="overflow"),
    ],
)
def test_what_cannot_be_done_stays_or_is_an_error(expr: Callable[[], Any]) -> None:
    program = quantized(expr())
    assert_becomes(FakeQuantizationToInteger(), program, program)
    with pytest.raises(RuntimeError, match="a fake quantised region stays as it is: "):
        FakeQuantizationToInteger(hard_fail=True)(module(program))


def test_regions_with_variables_and_without_dequantizations_are_none() -> None:
    for expr in (
        relay.var("y", shape=(4, 1, 1)) + reals(X),
        relay.cast(X, "float32") + reals(X),
        relay.exp(const(1.0)),
    ):
        assert_becomes(FakeQuantizationToInteger(hard_fail=True), quantized(expr), quantized(expr))


def test_the_same_quantisation_at_both_ends_leaves_no_requantisation() -> None:
    assert_becomes(FakeQuantizationToInteger(), quantized(relay.reshape(reals(X, 0.5, 3), (4, 36)), 0.5, 3),
                   relay.reshape(X, (4, 36)))  # fmt: skip


def test_regions_in_a_row_are_converted_each() -> None:
    first = quantized(nn.relu(reals(X)), 0.25, 1)
    changed = assert_integers_agree(quantized(nn.max_pool2d(reals(first, 0.25, 1), (2, 2)), 0.5))
    assert operators(changed) == ["maximum", "qnn.requantize", "nn.max_pool2d", "qnn.requantize"]


def test_softmax_is_quantised_only_when_asked() -> None:
    program = quantized(nn.softmax(reals(integers("x", 3, 8), 0.1)), 1 / 256, -128)
    assert_becomes(FakeQuantizationToInteger(), program, program)
    assert "qnn.softmax" in operators(after(FakeQuantizationToInteger(optional_qnn_ops=["nn.softmax"]), program))
    with pytest.raises(OptionError, match=r"names no operator 'nn.softmaxx'; did you mean 'nn.softmax'"):
        FakeQuantizationToInteger(optional_qnn_ops=["nn.softmaxx"])


def test_after_aware_training_what_follows_its_operands_is_quantised_as_well() -> None:
    x, y = integers("x", 1, 4, 2), integers("y", 1, 3, 2)
    before = relay.cos(nn.batch_matmul(reals(x, 2.0, 1), relay.broadcast_to(reals(y, 6.0), (1, 3, 2))))
    product = relay.qnn.batch_matmul(x, relay.broadcast_to(y, (1, 3, 2)), const(1), const(0), const(2.0), const(6.0))
    expected = relay.cos(reals(product, 12.0))
    assert_becomes(FakeQuantizationToInteger(use_qat=True), before, expected)
    assert_becomes(FakeQuantizationToInteger(), before, before)


def test_after_aware_training_fields_are_dequantized_each() -> None:
    fields = relay.split(reals(X), 2, axis=1)
    changed = after(FakeQuantizationToInteger(use_qat=True), relay.cos(fields[0]) + relay.cos(fields[1]))
    assert sorted(operators(changed)) == ["add", "cos", "cos", "qnn.dequantize", "qnn.dequantize", "split"]


def test_a_script_registers_a_rule_of_its_own() -> None:
    assert attached(relay.op.get("copy"), "FTVMFakeQuantizationToInteger") is None
    try:
        register_unary_identity("copy")
        assert_integers_agree(quantized(relay.copy(reals(X))), 0)
    finally:
        relay.op.get("copy").reset_attr("FTVMFakeQuantizationToInteger")


def test_parameters_are_equal_by_value_whatever_their_size() -> None:
    assert approx_equal(const(np.float32(1e-9)), const(np.float32([1e-9])))
    assert not approx_equal(const(np.float32(1e-9)), const(np.float32(2e-9)))
    assert not approx_equal(const(np.float32([1, 1])), const(np.float32([1, 1, 1])))


def test_affine_types_are_nodes() -> None:
    one = relay.TensorAffineType(const(0.5), const(0), "int8")
    assert one.axis == -1
    assert tvm_ffi.structural_equal(one, relay.TensorAffineType(const(0.5), const(0), "int8"))
    assert not tvm_ffi.structural_equal(one, relay.TensorAffineType(const(0.5), const(0), "uint8"))
    assert relay.TupleAffineType([one, one]).types[1].same_as(one)
