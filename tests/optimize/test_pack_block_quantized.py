"""Dense layers with weights of a few bits: they stay so, and every way of multiplying gives what numpy does."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.packed_product.test_integers import target_of
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.kernels.block_quantized.ways import way_for
from vmkit.optimize import PackBlockQuantized
from vmkit.relay.ir.visit import post_order
from vmkit.relay.op import build
from vmkit.relay.op.nn.block_quantized import unpacked_codes
from vmkit.target import canonical_target
from vmkit.target.processor import processor_of

CHANNELS, UNITS = 72, 37
PLAIN = "llvm -mtriple=x86_64-linux-gnu"


class Layer(NamedTuple):
    """What a layer is like: the bits of its codes, its block, the data type of its zero points, what it may do."""

    bits: int = 4
    block: int = 32
    zeros: str = ""
    rounds_data: bool = False
    has_bias: bool = False


LAYERS = (
    Layer(rounds_data=True),
    Layer(block=16, zeros="uint8", has_bias=True),
    Layer(bits=8, zeros="uint8", rounds_data=True, has_bias=True),
    Layer(bits=2, block=64, zeros="float32"),
    Layer(bits=2, block=16, rounds_data=True),
)


def operands(layer: Layer, units: int = UNITS, channels: int = CHANNELS) -> list[np.ndarray]:
    """Return random codes, scales and, where the layer has any, zero points."""
    rng, blocks = np.random.default_rng(layer.block + layer.bits), -(-channels // layer.block)
    codes = rng.integers(0, 256, (units, blocks, layer.block * layer.bits // 8), "uint8")
    arrays = [codes, (rng.random((units, blocks)) / (8 << layer.bits)).astype("float32")]
    most = 1 << layer.bits
    if layer.zeros:
        zeros = rng.random((units, blocks)) * (most - 1)
        arrays.append((np.rint(zeros) if layer.zeros == "uint8" else zeros).astype(layer.zeros))
    return arrays


def expected(layer: Layer, data: np.ndarray, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the product in float64, of data that are rounded to int8 in each block where the layer may do so."""
    codes, scales, *zeros = (a.astype("float64") for a in (unpacked_codes(arrays[0], layer.bits), *arrays[1:]))
    zero = zeros[0][..., None] if zeros else 1 << (layer.bits - 1)
    weight = (codes - zero) * scales[..., None]
    filled = np.zeros((*data.shape[:-1], codes[0].size))
    filled[..., : data.shape[-1]] = data
    blocks = filled.reshape(*data.shape[:-1], *codes.shape[1:])
    if layer.rounds_data:
        scale = np.abs(blocks).max(-1, keepdims=True) / 127
        blocks = np.rint(blocks / np.where(scale == 0, 1, scale)) * scale
    return np.einsum("...bk,ubk->...u", blocks, weight)


def product(layer: Layer, data: relay.Expr, arrays: list[np.ndarray]) -> relay.Expr:
    attrs = {"bits": layer.bits, "block_size": layer.block, "rounds_data": layer.rounds_data}
    units = arrays[0].shape[0]
    constants = [relay.const(a) for a in arrays]
    made = build("nn.contrib_block_quantized_dense", data, *constants, channels=CHANNELS, units=units, **attrs)
    return relay.add(made, relay.const(bias(units))) if layer.has_bias else made


def bias(units: int) -> np.ndarray:
    return np.linspace(-1, 1, units, dtype="float32")


def rows(*lead: int) -> np.ndarray:
    data = np.random.default_rng(sum(lead)).standard_normal((*lead, CHANNELS)).astype("float32")
    data[..., :32] *= 0 if lead[-1] == 2 else 1  # a block of zeros has no scale
    return data


def names(mod: tvm.IRModule) -> list[str]:
    return [n.op.name for n in post_order(mod["main"]) if isinstance(n, relay.Call) and isinstance(n.op, tvm.ir.Op)]


@pytest.mark.parametrize("unit", ["vectors of 512 bits", "vectors of 256 bits", "int16 of 256 bits", "none"])
def test_any_number_of_rows_agrees_with_numpy(unit: str) -> None:
    target, arrays = PLAIN if unit == "none" else target_of(unit), [operands(layer) for layer in LAYERS]
    x = relay.var("x", shape=(relay.Any(), CHANNELS))
    function = relay.Function(
        [x], relay.Tuple([product(*pair) for pair in zip(LAYERS, [x] * len(LAYERS), arrays, strict=True)])
    )
    exe = vmkit.compile(function, target)
    machine = vmkit.VirtualMachine(exe, "cpu")
    processor = processor_of(canonical_target(target).primary)
    for count in (0, 1, 2, 5, 19):
        data = rows(count)
        for layer, known, result in zip(LAYERS, arrays, machine.run(data), strict=True):
            rounds = "int8" in way_for(processor, layer.bits, layer.rounds_data)[0].name
            wanted = expected(layer._replace(rounds_data=rounds), data, known) + layer.has_bias * bias(UNITS)
            np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=2e-5, err_msg=f"{layer}, {count} rows")


def test_known_rows_and_whole_panels() -> None:
    layers, arrays = LAYERS[:2], [operands(layer, 32) for layer in LAYERS[:2]]
    x = relay.var("x", shape=(2, 5, CHANNELS))
    body = relay.Tuple([product(layer, x, known) for layer, known in zip(layers, arrays, strict=True)])
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), target_of("int16 of 256 bits")), "cpu")
    data = rows(2, 5)
    for layer, known, result in zip(layers, arrays, machine.run(data), strict=True):
        wanted = expected(layer, data, known) + layer.has_bias * bias(32)
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=2e-5)


def test_rows_that_do_not_fit_the_cache_go_by_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vmkit.kernels.block_quantized.product.CACHES", vmkit.target.processor.Caches(1 << 10, 1 << 13))
    known, data = operands(LAYERS[0], 8), rows(75)
    x = relay.var("x", shape=(relay.Any(), CHANNELS))
    function = relay.Function([x], product(LAYERS[0], x, known))
    machine = vmkit.VirtualMachine(vmkit.compile(function, PLAIN), "cpu")
    wanted = expected(Layer(), data, known)
    np.testing.assert_allclose(machine.run(data).numpy(), wanted, rtol=1e-5, atol=2e-5)


def test_a_bias_is_added_by_the_kernel_unless_others_take_the_product_without() -> None:
    layer, x = LAYERS[1], relay.var("x", shape=(1, CHANNELS))
    with_bias = product(layer, x, operands(layer))
    for body, count in ((with_bias, 0), (relay.Tuple([with_bias, with_bias.args[0]]), 1)):
        mod = relay.transform.InferType()(tvm.IRModule({"main": relay.Function([x], body)}))
        made = names(PackBlockQuantized()(mod))
        assert (made.count("add"), made.count("nn.contrib_block_quantized_product")) == (count, 1)


def test_weights_stay_of_few_bits_in_a_file_on_cpus_alone(tmp_path: Any) -> None:
    layer = Layer(rounds_data=True)
    arrays = operands(layer, 2048)
    x = relay.var("x", shape=(1, CHANNELS))
    function = relay.Function([x], product(layer, x, arrays))
    exe = vmkit.compile(function, "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    exe.export(tmp_path / "layer.vmx")
    assert (tmp_path / "layer.vmx").stat().st_size < 1.15 * sum(a.nbytes for a in arrays) + (64 << 10)
    data = rows(1)
    loaded = vmkit.VirtualMachine(vmkit.load(tmp_path / "layer.vmx"), "cpu")
    np.testing.assert_allclose(loaded.run(data).numpy(), expected(layer, data, arrays), rtol=1e-5, atol=2e-5)
    for target, level, name in (
        ("llvm", 3, "nn.contrib_block_quantized_product"),
        ("llvm", 0, "nn.dense"),
        ("cuda -arch=sm_80", 3, "nn.dense"),
    ):
        with vmkit.PassContext(opt_level=level):
            optimised, _ = vmkit.VMCompiler().optimize(tvm.IRModule({"main": function}), target)
        assert name in names(optimised), target


def test_what_does_not_fit_is_refused() -> None:
    x, (codes, scales) = relay.var("x", shape=(1, CHANNELS)), operands(Layer())
    for arrays, message in (
        ([codes[:, :2], scales], "weight must be uint8 of shape"),
        ([codes, scales.astype("float64")], "scales must be float32 of shape"),
        ([codes, scales, scales, scales], "one tensor of zero points at most"),
    ):
        with pytest.raises(TypeCheckError, match=message):
            relay.transform.InferType()(tvm.IRModule({"main": relay.Function([x], product(Layer(), x, arrays))}))
