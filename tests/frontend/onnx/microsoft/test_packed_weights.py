"""Weights of a few bits, packed as onnxruntime has them."""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime import InferenceSession

import vmkit
from tests.frontend.onnx.programs import Compiled, array, model, node
from tests.frontend.onnx.quantized import agrees_exactly, integers, with_types
from tests.kernels.packed_product.test_integers import target_of


@pytest.mark.sweep
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("has_zeros", [True, False])
def test_weights_of_a_few_bits_are_unpacked(bits: int, has_zeros: bool) -> None:
    k, n, block = 40, 6, 16
    blocks = -(-k // block)
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "domain": "com.microsoft"}
    constants = {
        # Sums stay near 1, where the tolerance is more than their rounding.
        "b": integers(n, blocks, block * bits // 8), "s": np.abs(array(n, blocks)) / 256,
        "z": integers(n, -(-blocks * bits // 8)),
    }  # fmt: skip
    names = "s z" if has_zeros else "s"
    fixed = model(
        [node("MatMulNBits", f"x b {names}", "y", **attributes)], {"x": (["m", k], "float32")}, "y", constants
    )
    inputs = {"x": (["m", k], "float32"), "b": (constants["b"].shape, "uint8")}
    given = model(
        [node("MatMulNBits", f"x b {names}", "y", **attributes)],
        inputs,
        "y",
        {k: v for k, v in constants.items() if k != "b"},
    )
    for proto in (fixed, given):
        with_types(proto, {"y": "float32"}, "com.microsoft")
    feeds = [{"x": array(m, k)} for m in (1, 3)]
    agrees_exactly(fixed, *feeds)
    for feed in feeds:
        (expected,), (actual,) = Compiled(fixed)(**feed), Compiled(given)(**feed, b=constants["b"])
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("block", [16, 128])
def test_data_are_rounded_as_onnxruntime_does_where_the_accuracy_allows_it(block: int) -> None:
    k, n = 136, 21
    blocks = -(-k // block)
    constants = {
        "b": integers(n, blocks, block // 2), "s": np.abs(array(n, blocks)) / 256,
        "z": integers(n, -(-blocks // 2)), "bias": array(n),
    }  # fmt: skip
    attributes = {"K": k, "N": n, "bits": 4, "block_size": block, "accuracy_level": 4, "domain": "com.microsoft"}
    made = [node("MatMulNBits", "x b s", "y", **attributes), node("MatMulNBits", "x b s z _ bias", "w", **attributes)]
    proto = model(made, {"x": (["m", k], "float32")}, "y w", constants)
    with_types(proto, {"y": "float32", "w": "float32"}, "com.microsoft")
    machine = vmkit.VirtualMachine(vmkit.compile(proto, target_of("int16 of 256 bits")), "cpu")
    peer = InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for rows in (1, 3, 9):
        x = array(rows, k)
        for actual, expected in zip(machine.run(x), peer.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_even", [True, False])
def test_inputs_in_groups_of_any_order(is_even: bool) -> None:
    k, n, block = 64, 5, 16
    groups = np.repeat(np.arange(k // block), block)
    groups = np.random.default_rng(0).permutation(groups) if is_even else np.minimum(groups, 2)
    constants = {
        "b": integers(n, k // block, block // 2), "s": np.abs(array(n, k // block)) / 256,
        "g": groups.astype("int32"),
    }  # fmt: skip
    attributes = {"K": k, "N": n, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    proto = model([node("MatMulNBits", "x b s _ g", "y", **attributes)], {"x": (["m", k], "float32")}, "y", constants)
    with_types(proto, {"y": "float32"}, "com.microsoft")
    agrees_exactly(proto, {"x": array(1, k)}, {"x": array(3, k)})


@pytest.mark.parametrize("quant_type", [0, 1])
def test_normal_and_small_floats_of_four_bits(quant_type: int) -> None:
    k, n, block = 32, 5, 16
    attributes = {"K": k, "N": n, "block_size": block, "quant_type": quant_type, "domain": "com.microsoft"}
    constants = {"b": integers(n * k // 2), "m": np.abs(array(n * k // block))}
    proto = model([node("MatMulBnb4", "x b m", "y", **attributes)], {"x": (["r", k], "float32")}, "y", constants)
    agrees_exactly(with_types(proto, {"y": "float32"}, "com.microsoft"), {"x": array(1, k)}, {"x": array(3, k)})
