"""Networks of integers that come as Relax: by sums, rounding and limits, as PyTorch writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import vmkit
from tests.compiler.relay_parts.programs import AVX, OP, Emit, numbers, program

PRODUCT = "packed_product"


def number(value: float) -> relax.Expr:
    return relax.const(np.float32(value))


@dataclass(frozen=True)
class Bytes:
    """How a tensor is quantised."""

    scale: float = 0.05
    zero: int = 0
    dtype: str = "uint8"
    least: int = 0
    most: int = 255

    def quantized(self, emit: Emit, x: relax.Expr) -> relax.Expr:
        x = emit(OP.round(emit(OP.multiply(x, number(1 / self.scale)))))
        x = emit(OP.clip(emit(OP.add(x, number(self.zero))), self.least, self.most))
        return emit(OP.astype(x, self.dtype))

    def restored(self, emit: Emit, q: relax.Expr) -> relax.Expr:
        x = emit(OP.subtract(emit(OP.astype(q, "float32")), number(self.zero)))
        return emit(OP.multiply(x, number(self.scale)))

    def both(self, emit: Emit, x: relax.Expr) -> relax.Expr:
        return self.restored(emit, self.quantized(emit, x))


UNSIGNED, BESIDE = Bytes(), Bytes(zero=117)
SIGNED = Bytes(0.03, -5, "int8", -128, 127)
NARROW = Bytes(0.06, 0, "int8", -127, 127)


def weight(emit: Emit, *shape: int, zero: bool = False) -> relax.Expr:
    """Return a weight with a scale for each output, and a zero point for each or 0."""
    rng = np.random.default_rng(sum(shape))
    held = rng.integers(-127, 128, shape).astype("int8")
    by_output = (shape[0], *[1] * (len(shape) - 1))
    scales = (rng.random(shape[0]) * 0.01 / np.prod(shape[1:]) ** 0.5 + 1e-4).astype("float32")
    zeros = rng.integers(-9, 9, shape[0]) if zero else np.zeros(shape[0], "int64")
    away = emit(OP.astype(emit(OP.reshape(relax.const(zeros), by_output)), "float32"))
    x = emit(OP.subtract(emit(OP.astype(relax.const(held), "float32")), away))
    return emit(OP.multiply(x, emit(OP.reshape(relax.const(scales), by_output))))


def run(mod: Any, data: np.ndarray, level: int = 3) -> tuple[np.ndarray, set[str]]:
    with vmkit.PassContext(opt_level=level):
        executable = vmkit.compile(mod, AVX)
    return vmkit.VirtualMachine(executable, "cpu").run(data).numpy(), set(executable.primitive_ops)


def compare(network: Callable[..., relax.Expr], shapes: Sequence[Any], data: np.ndarray, quantum: float) -> set[str]:
    """Compare with the program without parts: few results are one quantum off. Return the operators' names."""
    mod = program(lambda emit, x: emit(network(emit, x)), tuple(shapes))
    got, names = run(mod, data)
    expected, plain = run(mod, data, level=0)
    off = np.abs(got - expected)
    assert off.max() <= quantum * 1.001 and (off > quantum / 100).mean() < 0.01, off.max()
    assert len(np.unique(expected)) > 9
    assert not any(PRODUCT in name for name in plain)
    return names


@pytest.mark.parametrize("source", [UNSIGNED, BESIDE, SIGNED, NARROW], ids=["unsigned", "beside", "signed", "narrow"])
@pytest.mark.parametrize("zero", [False, True])
def test_convolutions(source: Bytes, zero: bool) -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.nn.conv2d(source.both(emit, x), weight(emit, 24, 8, 3, 3, zero=zero), padding=1))
        y = emit(OP.nn.relu(emit(OP.add(y, relax.const(numbers(1, 24, 1, 1))))))
        y = UNSIGNED.both(emit, y)
        y = emit(OP.nn.conv2d(y, weight(emit, 24, 1, 3, 3, zero=zero), padding=1, groups=24, strides=2))
        y = SIGNED.both(emit, y)
        y = emit(OP.nn.conv2d(y, weight(emit, 40, 24, 1, 1, zero=zero)))
        return UNSIGNED.both(emit, y)

    n = tirx.Var("n", "int64")
    names = compare(network, (n, 8, 12, 12), numbers(2, 8, 12, 12) * 2, UNSIGNED.scale)
    # A weight of channels by themselves that is no int8 is two of int8.
    assert sum(PRODUCT in name for name in names) == (4 if zero else 3)


def test_rows_by_a_matrix() -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.matmul(BESIDE.both(emit, x), emit(OP.permute_dims(weight(emit, 48, 64), [1, 0]))))
        y = UNSIGNED.both(emit, emit(OP.nn.relu(emit(OP.add(y, relax.const(numbers(48)))))))
        y = emit(OP.matmul(y, emit(OP.permute_dims(weight(emit, 32, 48), [1, 0]))))
        return SIGNED.both(emit, y)

    n = tirx.Var("n", "int64")
    names = compare(network, (n, 64), numbers(7, 64) * 3, SIGNED.scale)
    assert sum(PRODUCT in name for name in names) == 2


def test_sums_pools_and_views_between() -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        x = BESIDE.both(emit, x)
        y = SIGNED.both(emit, emit(OP.nn.conv2d(x, weight(emit, 8, 8, 3, 3), padding=1)))
        y = UNSIGNED.quantized(emit, emit(OP.nn.relu(emit(OP.add(x, y)))))
        y = emit(OP.nn.max_pool2d(UNSIGNED.restored(emit, y), (2, 2), (2, 2)))
        y = UNSIGNED.quantized(emit, y)
        y = UNSIGNED.restored(emit, emit(OP.reshape(y, (2, 8 * 6 * 6))))
        return SIGNED.both(emit, emit(OP.matmul(y, emit(OP.permute_dims(weight(emit, 24, 288), [1, 0])))))

    names = compare(network, (2, 8, 12, 12), numbers(2, 8, 12, 12) * 2, SIGNED.scale)
    assert any(PRODUCT in name for name in names)


def test_integers_are_the_part_s_inputs_and_results() -> None:
    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.nn.conv2d(SIGNED.restored(emit, x), weight(emit, 16, 8, 3, 3), padding=1))
        return SIGNED.quantized(emit, y)

    mod = program(network, (1, 8, 9, 9), of="int8")
    data = np.random.default_rng(0).integers(-128, 128, (1, 8, 9, 9)).astype("int8")
    got, names = run(mod, data)
    expected, _ = run(mod, data, level=0)
    assert got.dtype == np.int8 and any(PRODUCT in name for name in names)
    assert np.abs(got.astype(int) - expected).max() <= 1 and (got != expected).mean() < 0.01


@pytest.mark.parametrize("is_rounded", [True, False])
@pytest.mark.parametrize(
    ("offset", "least", "most"),
    [(0.0, 0, 255), (0.5, 0, 255), (300.0, 0, 255), (np.inf, 0, 255), (0.0, 0.5, 255), (0.0, -1, 255), (0.0, 0, 256)],
)
def test_what_is_no_quantisation_stays_as_it_is(offset: float, least: float, most: float, is_rounded: bool) -> None:
    """Zero points and limits that are no integers of the type, and a number that is not rounded but cut off."""

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.nn.conv2d(x, relax.const(numbers(16, 8, 3, 3) / np.float32(9)), padding=1))
        y = emit(OP.maximum(emit(OP.minimum(emit(OP.multiply(y, number(20))), number(100))), number(0)))
        y = emit(OP.round(y)) if is_rounded else y
        return emit(OP.astype(emit(OP.clip(emit(OP.add(y, number(offset))), least, most)), "uint8"))

    mod = program(network, (1, 8, 9, 9))
    got, _ = run(mod, numbers(1, 8, 9, 9))
    expected, _ = run(mod, numbers(1, 8, 9, 9), level=0)
    assert np.abs(got.astype(int) - expected).max() <= 1 and (got != expected).mean() < 0.01


def test_floats_less_a_number_are_floats() -> None:
    """A cast of bytes less what is no zero point, for it is no integer, or makes the result larger."""

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        wide = emit(OP.astype(x, "float32"))
        half = emit(OP.subtract(wide, number(0.5)))
        larger = emit(OP.subtract(wide, relax.const(np.arange(3, dtype="float32").reshape(3, 1, 1, 1))))
        return emit(OP.nn.conv2d(emit(OP.add(half, larger)), relax.const(numbers(16, 8, 3, 3) / 999), padding=1))

    mod = program(network, (1, 8, 9, 9), of="uint8")
    data = np.random.default_rng(0).integers(0, 256, (1, 8, 9, 9)).astype("uint8")
    got, _ = run(mod, data)
    expected, _ = run(mod, data, level=0)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert got.shape == (3, 16, 9, 9)


def found_zero(emit: Emit, x: relax.Expr, least: int, most: int) -> tuple[relax.Expr, relax.Expr]:
    """Return a scale and a zero point by which all of a tensor is within limits, as PyTorch finds them."""
    low = emit(OP.minimum(emit(OP.min(x)), number(0)))
    high = emit(OP.maximum(emit(OP.max(x)), number(0)))
    scale = emit(OP.divide(emit(OP.subtract(high, low)), number(most - least)))
    steps = emit(OP.astype(emit(OP.round(emit(OP.divide(low, scale)))), "int32"))
    zero = emit(OP.subtract(relax.const(least, "int32"), steps))
    zero = emit(OP.minimum(emit(OP.maximum(zero, relax.const(least, "int32"))), relax.const(most, "int32")))
    return scale, emit(OP.reshape(emit(OP.astype(zero, "int64")), (1,)))


@pytest.mark.parametrize(("dtype", "least", "most"), [("uint8", 0, 255), ("int8", -128, 127), ("uint8", 0, 127)])
def test_zero_points_that_a_run_finds(dtype: str, least: int, most: int) -> None:
    def quantized(emit: Emit, x: relax.Expr) -> relax.Expr:
        scale, zero = found_zero(emit, x, least, most)
        zero = emit(OP.astype(emit(OP.reshape(zero, ())), "float32"))
        steps = emit(OP.round(emit(OP.divide(x, scale))))
        held = emit(OP.astype(emit(OP.clip(emit(OP.add(steps, zero)), least, most)), dtype))
        return emit(OP.multiply(emit(OP.subtract(emit(OP.astype(held, "float32")), zero)), scale))

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        y = emit(OP.matmul(quantized(emit, x), emit(OP.permute_dims(weight(emit, 48, 64), [1, 0]))))
        y = emit(OP.nn.relu(emit(OP.add(y, relax.const(numbers(48))))))
        return emit(OP.matmul(quantized(emit, y), emit(OP.permute_dims(weight(emit, 32, 48), [1, 0]))))

    n = tirx.Var("n", "int64")
    names = compare(network, (n, 64), numbers(7, 64) * 3, 0.01)
    assert sum(PRODUCT in name for name in names) == 2


@pytest.mark.parametrize("how", ["known", "of data", "limited to -3000", "limited, and then not"])
def test_products_of_differences_of_more_than_8_bits_are_of_floats(how: str) -> None:
    """Sums of 6,000 such are no int32. Where data say what is subtracted, it may be anything but for limits."""

    def number_of(emit: Emit, x: relax.Expr) -> relax.Expr:
        """Return -3000."""
        made = emit(OP.multiply(emit(OP.astype(emit(OP.max(x)), "int64")), relax.const(-60, "int64")))
        if how == "limited to -3000":
            made = emit(OP.minimum(emit(OP.maximum(made, relax.const(0, "int64"))), relax.const(-3000, "int64")))
        elif how == "limited, and then not":
            within = emit(OP.maximum(emit(OP.minimum(made, relax.const(255, "int64"))), relax.const(0, "int64")))
            made = emit(OP.minimum(within, made))
        return emit(OP.astype(made, "float32"))

    def network(emit: Emit, x: relax.Expr) -> relax.Expr:
        zero = number(-3000) if how == "known" else number_of(emit, x)
        away = emit(OP.subtract(emit(OP.astype(x, "float32")), zero))
        held = relax.const(np.full((32, 6000), 127, "int8"))
        heavy = emit(OP.multiply(emit(OP.astype(held, "float32")), number(0.5)))
        return emit(OP.matmul(emit(OP.multiply(away, number(0.1))), emit(OP.permute_dims(heavy, [1, 0]))))

    mod = program(network, (2, 6000), of="uint8")
    data = np.full((2, 6000), 50, "uint8")
    np.testing.assert_allclose(run(mod, data)[0], np.full((2, 32), 3050 * 0.1 * 127 * 0.5 * 6000), rtol=1e-4)
