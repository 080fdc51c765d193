"""Loops of kernels in C: what padding adds is left out only where it adds nothing, and sums grow together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import vmkit
from tests.mlf.built import FLAGS, Built, build
from tests.mlf.networks import model
from vmkit import relay

RNG = np.random.default_rng(7)
CHECKED = (*FLAGS, "-fsanitize=undefined", "-fno-sanitize-recover")


def exported(function: relay.Function, folder: Path) -> tuple[Built, str]:
    vmkit.mlf.export(function, folder / "loops.tar")
    built = build(folder / "loops.tar", flags=CHECKED)
    return built, (built.folder / "codegen/host/src/default_lib1.c").read_text()


def assert_as_on_the_machine(function: relay.Function, built: Built, *inputs: np.ndarray) -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(function, "llvm"), "cpu", num_threads=1)
    result: Any = machine.run(*inputs)
    for got, expected in zip(built.run(*inputs), result if isinstance(result, list | tuple) else [result], strict=True):
        np.testing.assert_allclose(got, expected.numpy().ravel(), rtol=1e-5, atol=1e-6)


def test_windows_end_where_the_image_does(tmp_path: Path) -> None:
    x = relay.var("x", shape=(1, 8, 7, 6))
    weights = [relay.const(RNG.random(shape, dtype="float32")) for shape in ((8, 8, 3, 3), (8, 1, 5, 4), (6, 8, 2, 2))]
    strided = relay.nn.conv2d(x, weights[0], strides=(2, 3), padding=(1, 2, 3, 0), dilation=(2, 1))
    depthwise = relay.nn.conv2d(x, weights[1], strides=(3, 1), padding=(4, 3), groups=8)
    outside = relay.nn.conv2d(x, weights[2], padding=(4, 4), strides=(1, 1))  # whole windows of padding
    pooled = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    mean = relay.nn.avg_pool2d(x, pool_size=(3, 2), strides=(2, 1), padding=(1, 1), count_include_pad=True)
    y = relay.var("y", shape=(1, 2, 7, 6), dtype="uint8")
    integers = relay.nn.max_pool2d(y, pool_size=(3, 2), strides=(2, 1), padding=(2, 1, 0, 1))
    function = relay.Function([x, y], relay.Tuple([strided, depthwise, outside, mean, integers, pooled]))
    built, source = exported(function, tmp_path)
    # Which element of a window is no number decides what the largest is: of floats there padding is looked at.
    assert [line.split()[0] for line in source.splitlines() if " ? " in line and "return" not in line] == [
        "pool_max_local[0]"
    ]
    image = RNG.standard_normal((1, 8, 7, 6)).astype("float32")
    bytes_ = RNG.integers(0, 256, (1, 2, 7, 6)).astype("uint8")
    assert_as_on_the_machine(function, built, image, bytes_)
    image[0, :, 0, 0], image[0, :, 6, 5], image[0, 3, 3, 3] = np.nan, np.inf, -np.inf
    assert_as_on_the_machine(function, built, image, bytes_)


def test_padding_times_what_is_not_finite_is_no_number(tmp_path: Path) -> None:
    x, w = relay.var("x", shape=(1, 2, 3, 3)), relay.var("w", shape=(2, 2, 3, 3))
    weights = RNG.random((2, 2, 3, 3), dtype="float32")
    weights[0, 0, 0, 0], weights[1, 1, 2, 2] = np.inf, np.nan
    made = [relay.nn.conv2d(x, each, padding=(1, 1)) for each in (w, relay.const(weights))]
    function = relay.Function([x, w], relay.Tuple(made))
    built, source = exported(function, tmp_path)
    assert source.count(" ? ") >= 2
    image = RNG.random((1, 2, 3, 3), dtype="float32")
    assert_as_on_the_machine(function, built, image, weights)
    assert np.isnan(built.run(image, weights)[1][0])


def test_sums_that_share_an_operand_grow_together(tmp_path: Path) -> None:
    x, w = relay.var("x", shape=(3, 16)), relay.var("w", shape=(8, 16))
    y, v = relay.var("y", shape=(3, 7), dtype="int8"), relay.var("v", shape=(5, 7), dtype="int8")
    made = [relay.nn.relu(relay.nn.dense(x, w)), relay.nn.dense(y, v, out_dtype="int32"), relay.sum(x, axis=1)]
    function = relay.Function([x, w, y, v], relay.Tuple(made))
    built, source = exported(function, tmp_path)
    assert sorted(map(int, re.findall(r"(?:float|int32_t) \w+\[(\d+)\];", source))) == [1, 4, 5]
    integers = [RNG.integers(-128, 128, shape).astype("int8") for shape in ((3, 7), (5, 7))]
    assert_as_on_the_machine(
        function, built, *(RNG.random(shape, dtype="float32") for shape in ((3, 16), (8, 16))), *integers
    )


def test_rounding_without_an_instruction_of_it_is_exact(tmp_path: Path) -> None:
    weights = {"scale": np.float32(1), "zero": np.int8(0)}
    nodes = [
        onnx.helper.make_node("Round", ["x"], ["whole"]),
        onnx.helper.make_node("QuantizeLinear", ["x", *weights], ["y"]),
    ]
    types = {"y": onnx.TensorProto.INT8}
    vmkit.mlf.export(model(nodes, {"x": [4096]}, ["whole", "y"], weights, types), tmp_path / "round.tar")
    built = build(tmp_path / "round.tar", flags=(*FLAGS, "-U__SSE4_1__"))
    assert "rounded_float32(x[" in (built.folder / "codegen/host/src/default_lib1.c").read_text()
    numbers = RNG.integers(0, 2**32, 4096).astype("uint32").view("float32")
    numbers = np.where(np.isnan(numbers), np.float32(0), numbers)
    numbers[:3000] = RNG.integers(-270, 270, 3000) / 2
    numbers[3000:3010] = [0, -0.0, 0.5, -0.5, -0.25, 8388607.5, 8388608, 8388609, np.inf, -np.inf]
    numbers[3012:3016] = np.nextafter(np.float32([0.5, -0.5, 1.5, 2.5]), np.float32(0))
    whole, quantized = built.run(numbers)
    np.testing.assert_array_equal(whole, np.rint(numbers))
    np.testing.assert_array_equal(quantized, np.clip(np.rint(numbers), -128, 127).astype("int8"))
