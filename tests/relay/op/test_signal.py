"""Fourier transforms agree with numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var
from vmkit.relay.op.stockham import rows_at_once


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(dtype)


def frames(
    x: np.ndarray, n_fft: int, hop: int, window: np.ndarray, onesided: bool = True, normalized: bool = False
) -> np.ndarray:
    """The transforms of the frames by numpy: the window is as long as a frame's used part."""
    win = len(window)
    count = (x.shape[-1] - n_fft) // hop + 1
    cut = np.stack([x[..., f * hop : f * hop + win] for f in range(count)], axis=-2) * window
    turns = np.exp(-2j * np.pi * np.outer(np.arange(n_fft // 2 + 1 if onesided else n_fft), np.arange(win)) / win)
    result = np.einsum("fk,...tk->...ft", turns, cut) / (np.sqrt(n_fft) if normalized else 1)
    return np.stack([result.real, result.imag], -1).astype(x.dtype)


def test_stft_agrees_with_numpy(dim: Any) -> None:
    x, w = var("x", shape=(dim(2), dim(50)), dtype="float64"), var("w", shape=(dim(8),), dtype="int32")
    line = relay.take(x, relay.const(0), axis=0)
    table = {
        "plain": (relay.stft(x, 8, 3, window=w), lambda x, w: frames(x, 8, 3, w)),
        "all frequencies": (relay.stft(x, 8, 2, 8, w, onesided=False), lambda x, w: frames(x, 8, 2, w, onesided=False)),
        "normalized": (relay.stft(x, 7, 1, 7, w, True), lambda x, w: frames(x, 7, 1, w[:7], normalized=True)),
        "short window": (relay.stft(x, 8, 2, 5, w), lambda x, w: frames(x, 8, 2, w[:5])),
        "defaults": (relay.stft(x, 8), lambda x, w: frames(x, 8, 2, np.ones(8))),
        "no batch": (relay.stft(line, 8, 3, window=w), lambda x, w: frames(x[0], 8, 3, w)),
    }
    known = isinstance(x.type_annotation.shape[0], int)
    window = np.arange(1, 9, dtype="int32")
    sizes = [(2, 50)] if known else [(2, 50), (1, 8)]
    assert_table([x, w], table, *[(numbers(*s, dtype="float64"), window) for s in sizes])


def test_a_whole_frame_is_what_numpy_fft_gives() -> None:
    x = var("x", shape=(1, 64), dtype="float64")
    result = compiled([x], relay.stft(x, 64, onesided=True))(numbers(1, 64, dtype="float64"))
    expected = np.fft.rfft(numbers(1, 64, dtype="float64"))
    np.testing.assert_allclose(result[0, :, 0, 0] + 1j * result[0, :, 0, 1], expected[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("dtype", "rtol"), [("float16", 1e-2), ("float32", 1e-4), ("float64", 1e-10)])
def test_dft_and_its_inverse_agree_with_numpy(dim: Any, dtype: str, rtol: float) -> None:
    shape = (dim(3), 2, dim(20))
    x, y = var("x", shape=shape, dtype=dtype), var("y", shape=shape, dtype=dtype)
    real, imaginary = relay.dft(x, y)
    run = compiled([x, y], real, imaginary, relay.dft(x, y, inverse=True), relay.dft(real, imaginary, True))
    for sizes in [(3, 2, 20)] if isinstance(shape[0], int) else [(3, 2, 20), (1, 2, 1), (2, 2, 7), (0, 2, 4)]:
        a, b = numbers(*sizes, dtype=dtype), numbers(*sizes, dtype=dtype)[..., ::-1].copy()
        values = a.astype("float64") + 1j * b
        forward, backward = np.fft.fft(values), np.fft.ifft(values)
        expected = [forward.real, forward.imag, (backward.real, backward.imag), (a, b)]
        cast = [tuple(f.astype(dtype) for f in e) if isinstance(e, tuple) else e.astype(dtype) for e in expected]
        assert_same(run(a, b), tuple(cast), rtol=rtol, atol=rtol)


def test_unknown_lengths_that_do_not_fit_are_an_error_when_run() -> None:
    x, w, y = var("x", shape=(1, relay.Any())), var("w", shape=(relay.Any(),)), var("y", shape=(1, relay.Any()))
    frame = compiled([x, w], relay.stft(x, 8, 2, window=w))
    with pytest.raises(VMError, match="stft: n_fft is 8, but the signal has fewer elements"):
        frame(numbers(1, 7), numbers(8))
    with pytest.raises(VMError, match="stft: win_length is 8, but window has fewer elements"):
        frame(numbers(1, 9), numbers(7))
    with pytest.raises(VMError, match="dft: dimension 1 is 4 in im_data and 3 in re_data"):
        compiled([x, y], relay.dft(x, y))(numbers(1, 3), numbers(1, 4))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.stft(x, 65), "n_fft is 65, but the signal has only 64 elements"),
        (lambda x: relay.stft(x, 2), "hop_length is 0; it must be at least 1"),
        (lambda x: relay.stft(x, 8, 2, 9), "win_length is 9; it can be at most n_fft, 8"),
        (
            lambda x: relay.stft(x, 8, window=relay.const([1.0])),
            "window must be a vector of at least 8 elements, not Tensor[(1), float32]",
        ),
        (
            lambda x: relay.stft(relay.cast(x, "int32"), 8),
            "data must be a tensor of floats, not Tensor[(2, 64), int32]",
        ),
        (
            lambda x: relay.dft(x, relay.cast(x, "float64")),
            "re_data and im_data must have one type with at least 1 dimension, not Tensor[(2, 64), float32] and "
            "Tensor[(2, 64), float64]",
        ),
    ],
)
def test_wrong_arguments_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 64))
    assert type_error([x], build(x)) == message


def test_few_rows_of_a_transform_share_no_vectors_with_rows_that_are_not_there() -> None:
    counts = {1: 1, 2: 2, 3: 4, 5: 8, 16: 16, 100: 16, 0: 1}
    assert {rows: rows_at_once(rows) for rows in counts} == counts
    assert rows_at_once(tvm.tirx.Var("n", "int64")) == 16
