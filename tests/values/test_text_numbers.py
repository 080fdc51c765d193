"""Numbers as texts and texts as numbers: whole lists at once, as each by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vmkit.errors import VMError
from vmkit.values.text_numbers import float_texts, floats_of, integers_of


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_have_eight_digits_and_names_of_their_own(dtype: str) -> None:
    with np.errstate(over="ignore"):
        numbers = np.array([0, -0.0, 1 / 3, 1e-7, 65504, 1e20, 12345678, math.inf, -math.inf, math.nan, -1.5], dtype)
    said = {"inf": "INF", "-inf": "-INF", "nan": "NaN"}
    expected = [said.get(text, text) for text in (f"{float(number):.8g}" for number in numbers)]
    assert float_texts(numbers) == expected
    assert float_texts(numbers[:0]) == [] and float_texts(numbers[-2:-1]) == ["NaN"]


def test_texts_are_floats_as_c_reads_them() -> None:
    texts = [" 1.5 ", "-.5", "1.", "+2e3", "INF", "-Infinity", "nan", "1e400", "\t7\n"]
    made = floats_of(texts)
    assert made.dtype == "float64" and made[:6].tolist() == [1.5, -0.5, 1, 2000, math.inf, -math.inf]
    assert math.isnan(made[6]) and made[7:].tolist() == [math.inf, 7]
    assert floats_of([]).shape == (0,)


@pytest.mark.parametrize(
    "text", ["", " ", "1_0", "\u0663", "\x1c1", "1 2", "0x10", "e5", ".", "1\x00", "1,5", "1\u2003"]
)
def test_what_python_alone_takes_is_no_number(text: str) -> None:
    with pytest.raises(VMError, match="is not a number"):
        floats_of(["1", text])
    for dtype in ("int64", "uint8", "bool"):
        with pytest.raises(VMError, match="is not a number"):
            integers_of(["1", text], np.dtype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_wrap_around_and_are_cut_off(dtype: str) -> None:
    texts = ["0", " -1", "300", "+7\n", str(2**63 - 1), str(-(2**63))]
    bits = np.dtype(dtype).itemsize * 8
    least = int(np.iinfo(dtype).min)
    for more in ([], [str(2**64 + 5), "-2.9", "1e3", "007"]):
        made = integers_of([*texts, *more], np.dtype(dtype))
        exact = [*map(int, texts), *([2**64 + 5, -2, 1000, 7] if more else [])]
        assert made.dtype == dtype and made.tolist() == [(n - least) % 2**bits + least for n in exact]
    assert integers_of([], np.dtype(dtype)).dtype == dtype


def test_truth_is_what_is_not_zero() -> None:
    assert integers_of(["0", "-0", "256", "1"], np.dtype("bool")).tolist() == [False, False, True, True]
    assert integers_of(["0.5", "1.5"], np.dtype("bool")).tolist() == [False, True]


@pytest.mark.parametrize("text", ["inf", "nan", "-Infinity"])
def test_what_is_no_integer_is_said(text: str) -> None:
    with pytest.raises(VMError, match=f"'{text}' is not an integer"):
        integers_of(["1", text], np.dtype("int64"))


def test_more_digits_than_python_reads_are_an_error() -> None:
    with pytest.raises(VMError, match="more digits than a number can have"):
        integers_of(["9" * 5000], np.dtype("int64"))
