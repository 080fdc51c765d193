"""A weight that a program uses several times is packed, kept and loaded once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit import relay
from vmkit.bytecode.placeholders import large_constants

USES = 4
RNG = np.random.default_rng(0)

Weight = Callable[[], relay.Expr]


def dense(x: relay.Expr, weight: Weight) -> relay.Expr:
    return relay.tanh(relay.nn.dense(x, weight()))


def convolution(x: relay.Expr, weight: Weight) -> relay.Expr:
    return relay.nn.relu(relay.nn.conv2d(x, weight(), padding=(weight().data.shape[-1] // 2,) * 2))


def integers(x: relay.Expr, weight: Weight) -> relay.Expr:
    quantized = relay.cast(relay.clip(relay.round(x), -100, 100), "int8")
    return relay.cast(relay.nn.dense(quantized, weight(), out_dtype="int32"), "float32") / relay.const(1e3)


CASES = {
    "dense": (dense, (5, 256), (256, 256), "float32"),
    "of any number of rows": (dense, (relay.Any(), 256), (256, 256), "float32"),
    "1x1": (convolution, (1, 256, 7, 7), (256, 256, 1, 1), "float32"),
    "3x3": (convolution, (1, 64, 24, 24), (64, 64, 3, 3), "float32"),
    "3x3 of any size": (convolution, (1, 64, relay.Any(), relay.Any()), (64, 64, 3, 3), "float32"),
    "grouped": (convolution, (1, 128, 14, 14), (128, 128, 5, 5), "float32"),
    "integers": (integers, (5, 512), (512, 512), "int8"),
}


@pytest.mark.parametrize(("name", "is_copied"), [*((name, False) for name in CASES), ("dense", True), ("3x3", True)])
def test_a_weight_is_in_the_file_once_however_often_it_is_used(name: str, is_copied: bool, tmp_path: Path) -> None:
    layer, shape, weight_shape, dtype = CASES[name]
    values = RNG.integers(-9, 9, weight_shape).astype("float32") / (1 if dtype == "int8" else 200)
    array = values.astype(dtype)
    held = relay.const(array)

    def built(uses: int) -> vmkit.Executable:
        x = relay.var("x", shape=shape)
        value: relay.Expr = x
        for _ in range(uses):
            value = layer(value, (lambda: relay.const(array.copy())) if is_copied else (lambda: held))
        return vmkit.compile(relay.Function([x], value), "native")

    once, often = built(1), built(USES)
    once.export(tmp_path / "once.vmx")
    often.export(tmp_path / "often.vmx")
    sizes = {name: (tmp_path / f"{name}.vmx").stat().st_size for name in ("once", "often")}
    assert sizes["often"] - sizes["once"] < array.nbytes / 2
    loaded = vmkit.load(tmp_path / "often.vmx")
    held_once = sum(len(constant.data) for constant in large_constants(loaded.program).values())
    assert held_once == sum(len(constant.data) for constant in large_constants(once.program).values())

    data = RNG.standard_normal([d if isinstance(d, int) else 11 for d in shape]).astype("float32") * 10
    machine = vmkit.VirtualMachine(once, "cpu")
    expected = data
    for _ in range(USES):
        expected = machine.run(expected).numpy()
    got = vmkit.VirtualMachine(loaded, "cpu").run(data).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_a_weight_for_a_matrix_unit_is_cut_into_parts_once() -> None:
    array = RNG.standard_normal((256, 256)).astype("float32")
    x = relay.var("x", shape=(64, 256))
    value: relay.Expr = x
    for _ in range(USES):
        value = dense(value, lambda: relay.const(array.copy()))
    exe = vmkit.compile(relay.Function([x], value), "llvm -mcpu=sapphirerapids")
    assert "packed_product" in exe.primitives
    assert [len(constant.data) for constant in large_constants(exe.program).values()] == [array.nbytes * 3 // 2]
