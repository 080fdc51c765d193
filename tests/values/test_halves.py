"""Which numbers of float32 are ones of 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

from vmkit.values.halves import half_type, narrowed, widened

BOTH = ("float16", "bfloat16")
MANY = np.random.default_rng(0).standard_normal((3, 1 << 16)).astype("float16").astype("float32")


def bits(*values: int) -> np.ndarray:
    return np.array(values, "uint32").view("float32")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (np.array([1.5, -0.0, 65504, np.inf, -np.inf], "float32"), "float16"),
        (np.array([2.0**-24, -(2.0**-14)], "float32"), "float16"),
        (np.array([1 + 2.0**-10], "float32"), "float16"),
        (np.array([65536], "float32"), "bfloat16"),
        (np.array([2.0**-25], "float32"), "bfloat16"),
        (np.array([1 + 2.0**-10, 65536], "float32"), None),
        (np.array([1 + 2.0**-11], "float32"), None),
        (bits(0x7FC00000), "float16"),
        (bits(0xFF810000), "float16"),
        (bits(0x7FC00001), None),
        (np.zeros((0, 4), "float32"), "float16"),
        (MANY, "float16"),
        (MANY[:, ::2], "float16"),
        (np.append(MANY, np.float32(0.1)), None),
    ],
)
def test_every_bit_of_every_number_counts(values: np.ndarray, found: str | None) -> None:
    assert half_type(values, BOTH) == found


def test_only_the_types_given_are_looked_for_and_the_first_is_taken() -> None:
    one = np.ones(4, "float32")
    assert [half_type(one, types) for types in (BOTH, BOTH[::-1], BOTH[1:], ())] == [*BOTH, BOTH[1], None]


@pytest.mark.parametrize("dtype", ["float16", "uint16"])
def test_all_numbers_of_16_bits_are_widened_and_narrowed_again(dtype: str) -> None:
    halves = np.arange(1 << 16, dtype="uint16").view(dtype)
    wide = widened(halves)
    half = "float16" if dtype == "float16" else "bfloat16"
    assert half_type(wide, [half]) == half
    back = narrowed(wide, half)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back.view("uint16"), halves.view("uint16"))
    if dtype == "float16":
        np.testing.assert_array_equal(wide, halves)
    else:
        np.testing.assert_array_equal(wide.view("uint32") >> 16, halves)
