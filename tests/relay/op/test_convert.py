"""Conversions between element types, for every value of those of 16 bits and fewer, against ml_dtypes and ONNX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx.numpy_helper import saturate_cast, to_float8e8m0

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op import build
from vmkit.values.conversion import to_numpy
from vmkit.values.element_types import STORED, numpy_dtype

SMALL = sorted(set(STORED) - {"string", "float8_e8m0fnu"})
SMALL_FLOATS = [t for t in SMALL if t.startswith("float")]
SMALL_INTEGERS = [t for t in SMALL if not t.startswith("float")]
HALVES = np.arange(1 << 16, dtype="uint16").view("float16")


def converted(array: np.ndarray, options: list[tuple[Any, ...]]) -> list[np.ndarray]:
    """Return an array converted with several attributes, in one program of unknown size."""
    x = relay.var("x", shape=(relay.Any(),), dtype=str(array.dtype))
    body = relay.Tuple([build("contrib_convert", x, *o) for o in options])
    return list(to_numpy(vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), "llvm")).run(array)))


def assert_same(actual: np.ndarray, expected: np.ndarray, where: Any = True) -> None:
    """Assert that values have the same bits, or are both no numbers."""
    assert actual.dtype == expected.dtype
    unsigned = f"uint{8 * actual.dtype.itemsize}"
    same = actual.view(unsigned) == expected.view(unsigned)
    with np.errstate(all="ignore"):
        same |= np.isnan(actual.astype("float32")) & np.isnan(expected.astype("float32"))
    assert (same | ~np.broadcast_to(where, same.shape)).all()


def test_every_half_becomes_the_nearest_small_float() -> None:
    results = converted(HALVES, [(t, s) for t in SMALL_FLOATS for s in (True, False)])
    for position, dtype in enumerate(SMALL_FLOATS):
        saturated, other = results[2 * position : 2 * position + 2]
        with np.errstate(all="ignore"):
            plain = HALVES.astype(numpy_dtype(dtype))
            expected = saturate_cast(HALVES, numpy_dtype(dtype)) if dtype.startswith("float8") else plain
        assert_same(saturated, expected)
        assert_same(other, plain)


def test_a_double_is_rounded_once() -> None:
    # In float32 these lie halfway, and would go to the even neighbour.
    tie = np.array([1.0625, -1.0625, 2.0**-10, 17.0])
    above = np.nextafter(tie, np.sign(tie) * np.inf)
    halfway, beyond = (converted(x, [("float8_e4m3fn",)])[0].astype("float64") for x in (tie, above))
    np.testing.assert_array_equal(halfway, [1, -1, 0, 16])
    np.testing.assert_array_equal(beyond, [1.125, -1.125, 2.0**-9, 18])


@pytest.mark.parametrize("dtype", [*SMALL, "float8_e8m0fnu"])
def test_every_small_number_is_the_same_in_a_wide_type(dtype: str) -> None:
    count = 256 if dtype.startswith("float8") else 1 << int(dtype[5] if dtype.startswith("float") else dtype[-1])
    values = np.arange(count, dtype="uint8").view(numpy_dtype(dtype))
    wide = ["float32", "float64", "bfloat16", "bool"]
    for name, result in zip(wide, converted(values, [(t,) for t in wide]), strict=True):
        assert_same(result, values.astype("float32").astype(numpy_dtype(name)))


def test_integers_keep_their_lowest_bits() -> None:
    values = np.arange(-300, 300, dtype="int32")
    for dtype, result in zip(SMALL_INTEGERS, converted(values, [(t,) for t in SMALL_INTEGERS]), strict=True):
        assert_same(result, values.astype(numpy_dtype(dtype)))


def test_floats_become_integers_by_dropping_the_fraction() -> None:
    values = np.float32([-8.9, -2.5, -0.5, 0.9, 1.5, 3.99, 7.5])
    (result,) = converted(values, [("int4",)])
    assert result.tolist() == [-8, -2, 0, 0, 1, 3, 7]


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [True, False])
def test_an_exponent_is_rounded_as_told(mode: str, saturate: bool) -> None:
    values = np.concatenate(
        [np.abs(HALVES).astype("float32"), np.float32([2**-149, 2**-127, 2**-126, 3e38, 1.5, np.inf])]
    )
    (result,) = converted(values, [("float8_e8m0fnu", saturate, mode)])
    assert_same(result, to_float8e8m0(values, saturate, mode))


def test_what_is_no_number_is_true_and_stays_none_in_bfloat16() -> None:
    values = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0, 0x80000000, 1], "uint32").view("float32")
    truth, narrow = converted(values, [("bool",), ("bfloat16",)])
    assert truth.tolist() == [True, True, True, False, False, True]
    assert np.isnan(narrow.astype("float32")).tolist() == [True, True, True, False, False, False]


def test_a_cast_takes_stored_types_as_well() -> None:
    x = relay.var("x", shape=(3,), dtype="float8_e5m2")
    body = relay.cast(relay.multiply(relay.cast(x, "float32"), relay.const(2.0)), "float8_e5m2")
    values = np.array([1.5, -0.25, 40000], ml_dtypes.float8_e5m2)
    result = to_numpy(vmkit.VirtualMachine(vmkit.compile(relay.Function([x], body), "llvm")).run(values))
    assert result.tolist() == [3, -0.5, 57344]


def test_a_conversion_of_strings_and_an_unknown_way_of_rounding_are_refused() -> None:
    x = relay.var("x", shape=(3,))
    for call, message in [
        (relay.cast(x, "string"), "a cast does not convert float32 to string"),
        (build("contrib_convert", x, "float8_e8m0fnu", True, "sideways"), "round_mode is 'sideways'"),
    ]:
        with pytest.raises(TypeCheckError, match=message):
            vmkit.compile(relay.Function([x], call), "llvm")


def test_a_double_becomes_the_nearest_half() -> None:
    finite = HALVES[np.isfinite(HALVES)].astype("float64")
    halfway = (finite[1:] + finite[:-1]) / 2
    near = [np.nextafter(halfway, side) for side in (-np.inf, np.inf)]
    special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 65520, 65519.99999, -1e300, 1e-300, -5e-324]
    values = np.concatenate([finite, halfway, *near, special])
    x = relay.var("x", shape=(relay.Any(),), dtype="float64")
    machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.cast(x, "float16")), "llvm"))
    with np.errstate(all="ignore"):
        assert_same(machine.run(values).numpy(), values.astype("float16"))


def test_halves_are_true_unless_they_are_zero() -> None:
    (truth,) = converted(HALVES, [("bool",)])
    np.testing.assert_array_equal(truth, HALVES.view("uint16") << 1 != 0)
