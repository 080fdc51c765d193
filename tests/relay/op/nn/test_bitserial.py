"""Bit-serial products agree with numpy's products of the same integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

WIDTHS = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}


def numbers(shape: tuple[int, ...], bits: int, dtype: str = "int16", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << bits, shape).astype(dtype)


def packed(x: np.ndarray, bits: int, pack_axis: int, bit_axis: int, dtype: str) -> np.ndarray:
    """Bits along an axis as words, the first in the highest bit."""
    width = WIDTHS[dtype]
    planes = np.stack([(x >> b) & 1 for b in range(bits)], -1)
    planes = np.moveaxis(planes, pack_axis, -1)
    words = planes.reshape(*planes.shape[:-1], -1, width).astype("uint64")
    values = (words << np.arange(width - 1, -1, -1, dtype="uint64")).sum(-1).astype(dtype)
    values = np.moveaxis(values, -1, pack_axis)
    return np.moveaxis(values, -1, bit_axis)


@pytest.mark.parametrize("dtype", list(WIDTHS))
def test_bitpack_agrees_with_numpy(dim: Any, dtype: str) -> None:
    x = var("x", shape=(dim(2), 64, dim(3)), dtype="int8")
    table = [(1, 1, 2), (3, 1, 3), (8, -2, 0), (2, 1, 1)]
    run = compiled([x], *[nn.bitpack(x, bits, axis, bit, dtype) for bits, axis, bit in table])
    a = np.random.default_rng(0).integers(-128, 128, (2, 64, 3)).astype("int8")
    expected = [packed(a, bits, axis % 3, bit, dtype) for bits, axis, bit in table]
    assert_same(run(a), tuple(expected))


def weights_of(w: np.ndarray, bits: int, unipolar: bool) -> np.ndarray:
    """In unipolar form a bit of 0 counts as -1."""
    return 2 * w.astype("int64") - ((1 << bits) - 1) if unipolar else w.astype("int64")


def convolved(x: np.ndarray, w: np.ndarray, strides: tuple[int, int], padding: tuple[int, ...]) -> np.ndarray:
    """Convolution of NCHW by OIHW; what is padded gives nothing."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (x.shape[2] - w.shape[2]) // strides[0] + 1
    columns = (x.shape[3] - w.shape[3]) // strides[1] + 1
    result = np.zeros((len(x), len(w), rows, columns), "int64")
    for a in range(w.shape[2]):
        for b in range(w.shape[3]):
            cut = x[:, :, a : a + rows * strides[0] : strides[0], b : b + columns * strides[1] : strides[1]]
            result += np.einsum("nchw,oc->nohw", cut, w[:, :, a, b])
    return result


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("unipolar", "pack", "bits", "out"), [(True, "uint32", (2, 1), "int16"), (False, "uint8", (1, 2), "int32")]
)
def test_bitserial_conv2d_agrees_with_numpy(
    dim: Any, layout: str, unipolar: bool, pack: str, bits: tuple[int, int], out: str
) -> None:
    a, w = numbers((2, 32, 6, 5), bits[0]), numbers((4, 32, 3, 2), bits[1], seed=1)
    options = {"strides": (1, 2), "padding": (1, 0, 2, 1), "channels": 4, "kernel_size": (3, 2)}
    expected = convolved(a.astype("int64"), weights_of(w, bits[1], unipolar), (1, 2), (1, 0, 2, 1))
    if layout == "NHWC":
        a, w, expected = a.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), expected.transpose(0, 2, 3, 1)
        options |= {"kernel_layout": "HWIO"}
    words = packed(w, bits[1], 1 if layout == "NCHW" else 2, 4, pack)
    x, v = var("x", shape=[dim(s) for s in a.shape], dtype="int16"), var("v", shape=w.shape, dtype="int16")
    p = var("p", shape=[dim(s) for s in words.shape], dtype=pack)
    options |= {"activation_bits": bits[0], "weight_bits": bits[1], "data_layout": layout, "unipolar": unipolar}
    made = [nn.bitserial_conv2d(x, weight, pack_dtype=pack, out_dtype=out, **options) for weight in (v, p)]
    result = compiled([x, v, p], *made)(a, w, words)
    assert_same(result, (expected.astype(out), expected.astype(out)))


@pytest.mark.parametrize("unipolar", [True, False])
@pytest.mark.parametrize(("pack", "bits"), [("uint8", (3, 2)), ("uint64", (1, 1))])
def test_bitserial_dense_agrees_with_numpy(dim: Any, unipolar: bool, pack: str, bits: tuple[int, int]) -> None:
    a, w = numbers((3, 128), bits[0]), numbers((5, 128), bits[1], seed=1)
    words = packed(w, bits[1], 1, 1, pack)
    x, v = var("x", shape=(dim(3), dim(128)), dtype="int16"), var("v", shape=(dim(5), dim(128)), dtype="int16")
    p = var("p", shape=[dim(s) for s in words.shape], dtype=pack)
    options = {"data_bits": bits[0], "weight_bits": bits[1], "pack_dtype": pack, "unipolar": unipolar}
    run = compiled([x, v, p], *[nn.bitserial_dense(x, weight, 5, **options) for weight in (v, p)])
    expected = (a.astype("int64") @ weights_of(w, bits[1], unipolar).T).astype("int16")
    assert_same(run(a, w, words), (expected, expected))


def test_fifo_buffer_keeps_the_last_elements(dim: Any) -> None:
    sizes = [(2, 3, 4, 2, 2), (2, 3, 1, 2, 2)]
    old, new = (var(n, shape=[dim(s) for s in shape]) for n, shape in zip(("old", "new"), sizes, strict=True))
    run = compiled([new, old], nn.fifo_buffer(new, old, 2), nn.fifo_buffer(new, new, axis=-3))
    a, b = (np.random.default_rng(k).normal(size=shape).astype("float32") for k, shape in enumerate(sizes))
    assert_same(run(b, a), (np.concatenate([a, b], 2)[:, :, 1:], b))
    if not isinstance(dim(1), int):
        assert_same(run(b[:, :, :0], a)[0], a)
        with pytest.raises(VMError, match="data has more elements along axis 2 than the buffer"):
            run(np.repeat(b, 5, 2), a)


def test_sizes_that_are_no_whole_words_are_an_error_when_run() -> None:
    x = var("x", shape=(2, relay.Any()), dtype="int8")
    w = var("w", shape=(3, relay.Any()), dtype="int8")
    with pytest.raises(VMError, match="dimension 1 is 33, which is no multiple of the 32 bits of a word"):
        compiled([x], nn.bitpack(x))(np.zeros((2, 33), "int8"))
    run = compiled([x, w], nn.bitserial_dense(x, w, 3))
    with pytest.raises(VMError, match="the number of inputs is 31, which is no multiple of the 32 bits of a word"):
        run(np.zeros((2, 31), "int8"), np.zeros((3, 31), "int8"))
    with pytest.raises(VMError, match="dimension 1 of the weight is 32, expected 64"):
        run(np.zeros((2, 64), "int8"), np.zeros((3, 32), "int8"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, w: nn.bitpack(x, pack_axis=2), "dimension 2 is 5, which is no multiple of the 32 bits of a word"),
        (lambda x, w: nn.bitpack(x, bits=9), "bits is 9; it is 1 to 8"),
        (
            lambda x, w: nn.bitpack(x, pack_type="int32"),
            "pack_type is 'int32'; it is one of uint8, uint16, uint32, uint64",
        ),
        (lambda x, w: nn.bitpack(relay.cast(x, "float32")), "data must be integers, not float32; cast them"),
        (
            lambda x, w: nn.bitserial_conv2d(x, w, channels=4),
            "weight must be Tensor[(4, 32, 3, 3), int8], or packed Tensor[(4, 1, 3, 3, 1), uint32], not "
            "Tensor[(2, 32, 3, 3), int8]",
        ),
        (lambda x, w: nn.bitserial_conv2d(x, w), "channels and the 2 values of kernel_size must be given"),
        (
            lambda x, w: nn.bitserial_conv2d(x, w, channels=2, kernel_layout="HWIO"),
            "kernel_layout is 'HWIO'; for data in NCHW it is 'OIHW'",
        ),
        (
            lambda x, w: nn.fifo_buffer(w, x, 0),
            "data has 2 elements along axis 0, more than the 1 of the buffer",
        ),
        (lambda x, w: nn.fifo_buffer(x, w, 0), "dimension 2 is 5 in data and 3 in the buffer"),
    ],
)
def test_wrong_operands_say_what_is_wrong(build: Any, message: str) -> None:
    x, w = var("x", shape=(1, 32, 5, 5), dtype="int8"), var("w", shape=(2, 32, 3, 3), dtype="int8")
    assert type_error([x, w], build(x, w)) == message
