"""Fourier transforms, windows and mel weights: against numpy and ONNX's reference, with sizes that are read."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx.programs import Compiled, array, model, node
from vmkit.errors import ModelError, VMError


def complex_of(parts: np.ndarray) -> np.ndarray:
    return parts[..., 0] + 1j * parts[..., 1]


def reference(proto: onnx.ModelProto, **feed: Any) -> list[np.ndarray]:
    return ReferenceEvaluator(proto).run(None, feed)


@pytest.mark.parametrize("length", [400, 1000, 1009])
def test_a_transform_of_any_length_is_as_near_as_its_numbers_allow(length: int) -> None:
    """Those of onnxruntime differ from it by a thousand times as much where the length is no power of two."""
    x = array(2, length, 1)
    (made,) = Compiled(model([node("DFT", "x", "y", axis=1)], {"x": (["b", "n", 1], "float32")}, "y"))(x=x)
    expected = np.fft.fft(x[..., 0].astype("float64"), axis=1)
    assert np.abs(complex_of(made) - expected).max() < 2e-6 * np.abs(expected).max()


@pytest.mark.parametrize("shape", [(1, 48, 1), (2, 9, 2), (3, 64, 1), (5, 7, 1), (16, 12, 2), (17, 8, 1), (0, 8, 1)])
def test_few_rows_are_transformed_together(shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    (made,) = Compiled(model([node("DFT", "x", "y", axis=1)], {"x": (shape, "float32")}, "y", opset=17))(x=x)
    whole = x[..., 0] + (1j * x[..., 1] if shape[2] == 2 else 0)
    np.testing.assert_allclose(made[..., 0] + 1j * made[..., 1], np.fft.fft(whole, axis=1), rtol=1e-4, atol=1e-4)


def test_a_transform_reads_its_length_and_axis_at_run_time() -> None:
    nodes = [
        node("DFT", "z length axis", "whole"),
        node("DFT", "z length axis", "back", inverse=1),
        node("DFT", "x length axis", "half", onesided=1),
        node("DFT", "x length axis", "full"),
        node("DFT", "z length axis", "real", onesided=1, inverse=1),
        node("DFT", "z _ axis", "own"),
    ]
    inputs = {
        "z": (("a", "b", "c", 2), "float64"),
        "x": (("a", "b", "c", 1), "float64"),
        "length": ((), "int64"),
        "axis": ((), "int64"),
    }
    compiled = Compiled(model(nodes, inputs, "whole back half full real own", opset=20))
    rng = np.random.default_rng(0)
    for shape, axis, length in (
        ((2, 12, 3), 1, 12),
        ((5, 2, 3), 0, 7),
        ((1, 3, 30), -2, 17),
        ((3, 2, 64), 2, 49),
        ((1, 1, 1), 1, 4),
        ((0, 4, 2), 1, 4),
    ):
        z, x = rng.normal(size=(*shape, 2)), rng.normal(size=(*shape, 1))
        at = axis % 4
        whole, back, half, full, real, own = compiled(z=z, x=x, length=np.int64(length), axis=np.int64(axis))
        signal = complex_of(z)
        np.testing.assert_allclose(complex_of(whole), np.fft.fft(signal, length, at), atol=1e-11)
        np.testing.assert_allclose(complex_of(back), np.fft.ifft(signal, length, at), atol=1e-11)
        np.testing.assert_allclose(complex_of(half), np.fft.rfft(x[..., 0], length, at), atol=1e-11)
        np.testing.assert_allclose(complex_of(full), np.fft.fft(x[..., 0], length, at), atol=1e-11)
        np.testing.assert_allclose(real[..., 0], np.fft.irfft(signal, length, at), atol=1e-11)
        np.testing.assert_allclose(complex_of(own), np.fft.fft(signal, axis=at), atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_transforms_of_opset_17_have_their_axis_as_attribute(dtype: str) -> None:
    nodes = [
        node("DFT", "x", "y"),
        node("DFT", "x length", "cut", axis=-2, onesided=1),
        node("DFT", "y", "z", inverse=1),
        node("DFT", "cut", "w", axis=2, inverse=1, onesided=1),
    ]
    compiled = Compiled(model(nodes, {"x": (("b", 9, "n", 1), dtype)}, "y cut z w", {"length": np.int32(8)}, opset=17))
    for batch, n in ((1, 8), (3, 5)):
        x = array(batch, 9, n, 1, dtype=dtype)
        y, cut, z, w = compiled(x=x)
        tolerance = 1e-5 if dtype == "float32" else 2e-2
        np.testing.assert_allclose(complex_of(y), np.fft.fft(x[..., 0], axis=1), atol=tolerance)
        np.testing.assert_allclose(complex_of(cut), np.fft.rfft(x[..., 0], 8, axis=2), atol=tolerance)
        np.testing.assert_allclose(complex_of(z), x[..., 0], atol=tolerance)
        np.testing.assert_allclose(w[..., 0], np.pad(x[..., 0], ((0, 0), (0, 0), (0, 8 - n))), atol=tolerance)
        assert y.dtype == np.dtype(dtype) and w.shape == (batch, 9, 8, 1)


def test_a_row_that_is_not_a_number_leaves_the_others_alone() -> None:
    compiled = Compiled(model([node("DFT", "x", "y")], {"x": ((3, 6, 1), "float32")}, "y", opset=17))
    x = array(3, 6, 1)
    x[1] = np.nan
    (y,) = compiled(x=x)
    np.testing.assert_allclose(complex_of(y)[[0, 2]], np.fft.fft(x[[0, 2], :, 0]), atol=1e-5)
    assert np.isnan(y[1]).all()


def test_frequencies_that_cancel_out_keep_their_phase() -> None:
    """Of a steady signal only rounding is left of most; exporters write its phase as atan(im / re), NaN for 0 / 0."""
    length, window = 20, np.hanning(21)[:-1].astype("float32")
    constants = {"step": np.int64(length), "w": window}
    compiled = Compiled(model([node("STFT", "x step w", "y")], {"x": ((1, "n", 1), "float32")}, "y", constants))
    levels = array(200, seed=3)
    (made,) = compiled(x=np.repeat(levels, length).reshape(1, -1, 1))
    expected = np.fft.rfft((levels[:, None] * window).astype("float64"))[:, 2:-1]  # from the same float32 products
    np.testing.assert_allclose(made[0, :, 2:-1, 0], expected.real, rtol=1e-5, atol=1e-15)
    assert np.count_nonzero(made[0, :, 2:-1, 0]) >= 0.999 * expected.size


def test_frames_of_a_signal_are_transformed_for_any_length_and_step() -> None:
    nodes = [
        node("STFT", "x step window", "windowed"),
        node("STFT", "x step _ length", "plain"),
        node("STFT", "x step window length", "both", onesided=0),
        node("STFT", "z four _ sixteen", "complex", onesided=0),
        node("STFT", "x step", "one"),
    ]
    inputs = {
        "x": (("b", "n", 1), "float32"),
        "z": (("b", "n", 2), "float32"),
        "step": ((), "int64"),
        "length": ((), "int32"),
        "window": (("w",), "float32"),
    }
    proto = model(nodes, inputs, "windowed plain both complex one", {"four": np.int64(4), "sixteen": np.int64(16)})
    compiled = Compiled(proto)
    for batch, n, step, length in ((2, 64, 5, 16), (1, 40, 20, 21)):
        x, z, window = array(batch, n, 1), array(batch, n, 2, seed=1), np.hanning(length).astype("float32")
        results = compiled(x=x, z=z, window=window, step=np.int64(step), length=np.int32(length))
        for result, weights, size, hop, signal, bins in (
            (results[0], window, length, step, x[..., 0], length // 2 + 1),
            (results[1], 1, length, step, x[..., 0], length // 2 + 1),
            (results[2], window, length, step, x[..., 0], length),
            (results[3], 1, 16, 4, complex_of(z), 16),
            (results[4], 1, n, step, x[..., 0], n // 2 + 1),
        ):
            starts = range(0, n - size + 1, hop)
            frames = np.stack([signal[:, s : s + size] * weights for s in starts], 1)
            np.testing.assert_allclose(complex_of(result), np.fft.fft(frames)[..., :bins], atol=2e-5)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_have_a_size_that_is_known_or_read(op_type: str) -> None:
    nodes = [
        node(op_type, "n", "y"),
        node(op_type, "n", "symmetric", periodic=0, output_datatype=TensorProto.DOUBLE),
        node(op_type, "ten", "known"),
        node("Shape", "x", "shape"),
        node("Squeeze", "shape", "size"),
        node(op_type, "size", "symbolic"),
    ]
    proto = model(nodes, {"n": ((), "int64"), "x": (("s",), "float32")}, "y symmetric known symbolic", {"ten": 10})
    compiled = Compiled(proto)
    for n, s in ((2, 5), (33, 1)):
        feed = {"n": np.int64(n), "x": array(s)}
        for result, expected in zip(compiled(**feed), reference(proto, **feed), strict=True):
            assert result.dtype == expected.dtype
            np.testing.assert_allclose(result, expected, atol=1e-6)
    assert compiled(n=np.int64(1), x=array(0))[1].tolist() == pytest.approx([{"Ha": 0, "Bl": 0}[op_type[:2]]], abs=0.1)


def test_mel_weights_of_sizes_that_are_read() -> None:
    names = "bins length rate low high"
    inputs: dict[str, Any] = {n: ((), "int64" if n in ("bins", "length", "rate") else "float32") for n in names.split()}
    proto = model([node("MelWeightMatrix", names, "y", output_datatype=TensorProto.DOUBLE)], inputs, "y")
    compiled = Compiled(proto)
    for bins, length, rate, low, high in ((8, 16, 8192, 0, 4096), (20, 400, 16000, 60, 7600), (40, 64, 8000, 0, 4000)):
        numbers = (*map(np.int64, (bins, length, rate)), np.float32(low), np.float32(high))
        feed = dict(zip(names.split(), numbers, strict=True))
        np.testing.assert_allclose(compiled(**feed)[0], reference(proto, **feed)[0], atol=1e-6)


def test_lengths_that_cannot_be_are_errors() -> None:
    x = {"x": ((1, 4, 1), "float32")}
    for made, constants, message in (
        (node("DFT", "x _ axis", "y"), {"axis": np.int64(2)}, "the axis is the last dimension"),
        (node("DFT", "x _ axis", "y"), {"axis": np.int64(-4)}, "axis -4 of a tensor of 3"),
        (node("DFT", "x length", "y"), {"length": np.int64(0)}, "length is 0; it must be at least 1"),
        (node("STFT", "x step", "y"), {"step": np.int64(0)}, "frame_step is 0"),
        (node("STFT", "x step w n", "y"), {"step": 1, "w": np.ones(3, "float32"), "n": 4}, "the window has 3 elements"),
    ):
        with pytest.raises(ModelError, match=message):
            Compiled(model([made], x, "y", constants, opset=20))
    nodes = [node("DFT", "x n", "y"), node("STFT", "x n _ four", "z")]
    compiled = Compiled(model(nodes, x | {"n": ((), "int64")}, "y z", {"four": np.int64(4)}, opset=20))
    for n in (0, -3):
        with pytest.raises(VMError, match=r"at least 1|no element|negative size"):
            compiled(x=array(1, 4, 1), n=np.int64(n))
