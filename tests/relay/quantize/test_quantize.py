"""Automatic quantisation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import OptionError, QuantizationError
from vmkit.relay import const, nn, quantize
from vmkit.relay.quantize.kl_divergence import scale_by_kl_divergence

RANDOM = np.random.default_rng(7)


def weight(*shape: int) -> relay.Constant:
    return const(RANDOM.uniform(-0.3, 0.3, shape).astype("float32"))


def data(name: str = "x", *shape: int) -> relay.Var:
    return relay.var(name, shape=shape or (1, 4, 8, 8))


def network() -> Any:
    """Return convolutions with a residual sum, a pool and a product with channels."""
    first = nn.relu(nn.conv2d(data(), weight(8, 4, 3, 3), padding=(1, 1)) + weight(8, 1, 1))
    second = nn.conv2d(first, weight(8, 8, 3, 3), padding=(1, 1)) * const(np.float32(1.5))
    return nn.max_pool2d(nn.relu(first + second), (2, 2), strides=(2, 2))


def quantized(expr: Any, dataset: Any = None, **config: Any) -> tvm.IRModule:
    with quantize.qconfig(**{"skip_conv_layers": None, **config}):
        return quantize.quantize(module(expr), dataset=dataset)


def run(mod: tvm.IRModule, **inputs: np.ndarray) -> np.ndarray:
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"), "cpu").run(**inputs).numpy()


def images(count: int, *shape: int) -> list[Mapping[str, np.ndarray]]:
    return [{"x": RANDOM.normal(0, 1, shape or (1, 4, 8, 8)).astype("float32")} for _ in range(count)]


def calls(mod: tvm.IRModule, name: str) -> list[relay.Call]:
    return [n for n in relay.ir.post_order(mod["main"]) if relay.ir.is_call(n, name)]


def dtypes(mod: tvm.IRModule, name: str) -> list[tuple[str, ...]]:
    return [(*(a.checked_type.dtype for a in c.args), c.checked_type.dtype) for c in calls(mod, name)]


@pytest.mark.parametrize(
    ("mode", "most", "weight_scale"),
    [
        ("kl_divergence", 0.25, "power2"),
        ("percentile", 0.12, "max"),
        ("global_scale", 0.25, "power2"),
        ("global_scale", 0.25, "max"),
    ],
)
def test_integers_are_close_to_the_reals(mode: str, most: float, weight_scale: str) -> None:
    expr, samples = network(), images(4)
    mod = quantized(expr, samples, calibrate_mode=mode, weight_scale=weight_scale, global_scale=16.0)
    assert dtypes(mod, "nn.conv2d") == [("int8", "int8", "int32")] * 2
    wanted, got = run(module(expr), **samples[0]), run(mod, **samples[0])
    assert np.abs(got - wanted).max() < most * np.abs(wanted).max()


@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST"])
def test_the_simulation_rounds_as_the_integers_do(rounding: str) -> None:
    # Scales that are powers of two: the reals of the simulation are exact.
    expr, (sample,) = network(), images(1)
    simulated = quantized(expr, do_simulation=True, rounding=rounding)
    assert "relay.op.annotation.simulated_quantize" in operators(simulated["main"])
    real = quantized(expr, rounding=rounding)
    step = 8.0 / 128
    assert np.abs(run(simulated, **sample) - run(real, **sample)).max() <= 2 * step


def test_the_module_that_is_given_stays() -> None:
    before = module(network())
    text = str(before)
    with quantize.qconfig(skip_conv_layers=None):
        quantize.quantize(before)
    assert str(before) == text


def test_convolutions_are_skipped_by_their_number() -> None:
    expr = network()
    for skipped, expected in (([], "ii"), ([0], "fi"), ([1], "if"), ([0, 1], "ff"), (None, "ii")):
        kinds = dtypes(quantized(expr, skip_conv_layers=skipped), "nn.conv2d")
        assert "".join(k[0][0] for k in kinds) == expected
    first = dtypes(quantized(expr, skip_conv_layers=quantize.QConfig().skip_conv_layers), "nn.conv2d")
    assert [k[0] for k in first] == ["float32", "int8"]


def test_dense_is_quantised_when_asked() -> None:
    expr = nn.dense(data("x", 2, 16), weight(8, 16))
    assert dtypes(quantized(expr), "nn.dense") == [("float32", "float32", "float32")]
    mod = quantized(expr, skip_dense_layer=False)
    assert dtypes(mod, "nn.dense") == [("int8", "int8", "int32")]
    (sample,) = images(1, 2, 16)
    assert np.abs(run(mod, **sample) - run(module(expr), **sample)).max() < 0.3


def test_a_batch_of_matrices_and_a_concatenation_are_quantised() -> None:
    x = nn.conv2d(data(), weight(8, 4, 1, 1))
    joined = relay.concatenate([x, nn.relu(nn.conv2d(data(), weight(4, 4, 1, 1)))], 1)
    expr = nn.batch_matmul(relay.reshape(joined, (12, 8, 8)), relay.sigmoid(relay.var("y", shape=(12, 8, 8))))
    mod = quantized(relay.Function(relay.analysis.free_vars(expr), expr))
    assert dtypes(mod, "nn.batch_matmul") == [("int8", "int8", "int32")]


def test_after_a_global_pool_the_program_stays() -> None:
    pooled = nn.global_avg_pool2d(nn.conv2d(data(), weight(8, 4, 3, 3)))
    mod = quantized(nn.conv2d(pooled, weight(8, 8, 1, 1)))
    assert [k[0] for k in dtypes(mod, "nn.conv2d")] == ["int8", "float32"]


def test_only_named_operators_are_quantised_for_debugging() -> None:
    mod = quantized(network(), debug_enabled_ops=["nn.dense"])
    assert relay.analysis.all_dtypes(mod["main"]) == {"float32"}


def test_scales_need_constants_and_data() -> None:
    expr = nn.conv2d(data(), relay.var("w", shape=(8, 4, 3, 3)))
    with pytest.raises(QuantizationError, match="the scale of a weight needs a constant; give quantize its params"):
        quantized(expr)
    for dataset, message in (
        (None, "pass a dataset"),
        ([], "the dataset is empty"),
        ([{"y": 1}], "lacks the inputs x"),
    ):
        with pytest.raises(QuantizationError, match=message):
            quantized(network(), dataset, calibrate_mode="percentile")


def test_params_are_bound_by_name() -> None:
    expr = nn.conv2d(data(), relay.var("w", shape=(8, 4, 3, 3)))
    with quantize.qconfig(skip_conv_layers=None):
        mod = quantize.quantize(module(expr), {"w": weight(8, 4, 3, 3).data})
    assert len(mod["main"].params) == 1


def test_values_are_collected_in_chunks() -> None:
    mod = quantize.prerequisite_optimize(module(network()))
    with quantize.qconfig(skip_conv_layers=None), quantize.quantize_context():
        annotated = quantize.annotate()(quantize.partition()(mod))
        whole = list(quantize.collect_stats(annotated, samples := images(3)))
        parts = list(quantize.collect_stats(annotated, samples, chunk_by=2))
    assert len(whole) == 1 and [len(p) for p in parts[:-1]] == [2] * (len(parts) - 1)
    np.testing.assert_array_equal(whole[0][0], np.concatenate([s["x"].reshape(-1) for s in samples]))
    for a, b in zip(whole[0], [v for part in parts for v in part], strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_scale_by_divergence_leaves_out_what_is_rare() -> None:
    samples = np.append(RANDOM.normal(0, 1, 20000), [40.0, -35.0])
    assert 2 < scale_by_kl_divergence(samples) < 12
    assert scale_by_kl_divergence(np.linspace(-1, 1, 9001)) == pytest.approx(1, rel=0.02)
    assert scale_by_kl_divergence(np.zeros(3)) == 1.0


def test_a_program_is_cut_into_conversions_and_integers() -> None:
    expr = nn.conv2d(data(), weight(4, 4, 3, 3)) + nn.conv2d(data("y"), weight(4, 4, 3, 3))
    expr = relay.Function(relay.analysis.free_vars(expr), expr)
    whole, parted = quantized(expr), quantized(expr, partition_conversions="fully_integral")
    names = {v.name_hint for v in parted.get_global_vars()}
    assert names == {"quantize_inputs", "quantized_main", "dequantize_outputs", "main"}
    assert relay.analysis.all_dtypes(parted["quantized_main"]) <= {"int8", "int32"}
    assert [p.name_hint for p in parted["main"].params] == [p.name_hint for p in expr.params]
    inputs = {"x": images(1)[0]["x"], "y": images(1)[0]["x"]}
    np.testing.assert_array_equal(run(parted, **inputs), run(whole, **inputs))


@pytest.mark.parametrize("place", ["before", "between", "after", "everywhere"])
def test_reals_in_the_middle_are_an_error_when_asked(place: str) -> None:
    def real(x: Any) -> Any:
        return relay.cos(x)

    given = data()
    x = real(given) if place == "before" else given
    y = nn.conv2d(x, weight(4, 4, 3, 3))
    y = nn.conv2d(real(y), weight(4, 4, 3, 3)) if place == "between" else y
    y = real(y) if place == "after" else given + given if place == "everywhere" else y
    mod = quantized(y, partition_conversions="enabled")
    (sample,) = images(1)
    np.testing.assert_array_equal(run(mod, **sample), run(quantized(y), **sample))
    with pytest.raises(QuantizationError, match="the program is not fully integral\n  "):
        quantized(y, partition_conversions="fully_integral")


def test_a_script_says_how_an_operator_is_quantised() -> None:
    seen = []

    @quantize.register_annotate_function("cos")
    def rewrite(ref_call: relay.Call, new_args: Any, ctx: None) -> None:
        seen.append((ref_call.op.name, type(new_args[0]), getattr(new_args[0], "kind", None)))

    try:
        quantized(relay.cos(relay.reshape(nn.conv2d(data(), weight(4, 4, 1, 1)), (4, 64))))
    finally:
        relay.op.get("cos").reset_attr("FQAnnotateRewrite")
    # What is marked before the reshape is an input.
    assert seen == [("cos", quantize.QAnnotateExpr, quantize.QAnnotateKind.INPUT)]


def test_one_value_is_simulated_once() -> None:
    x = data()
    with quantize.quantize_context():
        one = quantize.attach_simulated_quantize(x, quantize.QAnnotateKind.INPUT)
        assert quantize.attach_simulated_quantize(x, quantize.QAnnotateKind.INPUT).same_as(one)
        assert quantize.attach_simulated_quantize(one, quantize.QAnnotateKind.INPUT).same_as(one)
        assert not quantize.attach_simulated_quantize(x, quantize.QAnnotateKind.WEIGHT).same_as(one)


def test_a_configuration_is_in_force_within_its_block(caplog: pytest.LogCaptureFixture) -> None:
    outer = quantize.current_qconfig()
    with quantize.qconfig(nbit_weight=4) as config:
        assert quantize.current_qconfig() is config
        assert config.get_nbit_by_kind(quantize.QAnnotateKind.WEIGHT) == 4
        assert config.get_dtype_by_kind(quantize.QAnnotateKind.ACTIVATION) == "int32"
        with quantize.qconfig(), config:
            assert quantize.current_qconfig() is config
    assert quantize.current_qconfig() is outer
    with caplog.at_level(logging.WARNING):
        quantize.qconfig(skip_dense_layers=True)
    assert "qconfig knows no 'skip_dense_layers'; did you mean 'skip_dense_layer'" in caplog.text


def test_wrong_options_are_named_together() -> None:
    with pytest.raises(OptionError, match=r"calibrate_mode is 'global'.*\nweight_scale is 'power3'; .*power2") as error:
        quantize.qconfig(calibrate_mode="global", weight_scale="power3", calibrate_chunk_by=0)
    assert "calibrate_chunk_by is 0" in str(error.value)


def test_a_shift_to_the_left_is_by_a_positive_number() -> None:
    expr = nn.relu(nn.conv2d(data(), const(np.full((4, 4, 1, 1), 256.0, "float32"))))
    shifts = calls(quantized(expr, global_scale=8.0), "left_shift")
    assert shifts and all(int(c.args[1].data.numpy()) > 0 for c in shifts)


def test_a_quantised_module_is_compared_and_printed() -> None:
    expr = network()
    assert tvm_ffi.structural_equal(quantized(expr), quantized(expr))
    assert "nn.conv2d" in relay.astext(quantized(expr))
