"""TFLite files that take spectra of signals: sizes computed from sizes, real transforms, complex numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import vmkit
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.frontend.tflite_fourier import real_transform

pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")

from tests.frontend.test_tflite import model

RNG = np.random.default_rng(0)


def written(path: Path, operators: list[tuple[str, str, str]], tensors: dict[str, object], inputs: list[str]) -> Path:
    """Write a file, and return where it is."""
    path.write_bytes(model(operators, tensors, inputs))
    return path


def run(path: Path, *inputs: np.ndarray) -> np.ndarray:
    """Return what a file gives, compiled and loaded."""
    vmkit.compile(path, "llvm").export(path.with_suffix(".vmx"))
    return np.asarray(vmkit.VirtualMachine(vmkit.load(path.with_suffix(".vmx")), "cpu").run(*inputs).numpy())


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("shape", "lengths"),
    [
        ((3, 1, 2048), (1, 2048)), ((5, 1, 12), (1, 12)), ((2, 1, 7), (1, 7)), ((1, 1, 1), (1, 1)),
        ((2, 1, 20), (1, 16)), ((2, 1, 10), (1, 16)), ((2, 3, 8), (3, 8)), ((4, 6), (5, 9)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("part", ["REAL", "IMAG"])
def test_a_real_transform(tmp_path: Path, shape: tuple[int, ...], lengths: tuple[int, int], part: str) -> None:
    """Of powers of two, other lengths, primes; of signals that are cut or filled; of one axis and of two."""
    spectrum = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    operators = [
        ("RFFT2D", "Rfft2dOptions", "x lengths bins"),
        (part, "AbsOptions", "bins y"),
    ]
    tensors = {
        "x": ("float32", shape), "lengths": np.int32(lengths), "bins": ("complex64", spectrum),
        "y": ("float32", spectrum),
    }  # fmt: skip
    x = RNG.standard_normal(shape).astype("float32")
    expected = np.fft.rfft2(x.astype("float64"), s=lengths, axes=(-2, -1))
    result = run(written(tmp_path / "spectrum.tflite", operators, tensors, ["x"]), x)
    np.testing.assert_allclose(result, expected.real if part == "REAL" else expected.imag, atol=1e-5 * lengths[1])


def test_rows_of_a_transform_stay_whole_between_its_products() -> None:
    """Nothing moves the last axis before both products are done: numbers that move one by one cost more than these."""
    moves: list[list[int]] = []
    products = 0

    def visit(expr: relax.Expr) -> None:
        nonlocal products
        if not isinstance(expr, relax.Call):
            return
        for argument in expr.args:
            visit(argument)
        products += expr.op.name == "relax.matmul"
        if expr.op.name == "relax.permute_dims" and products < 2:
            moves.append([int(axis) for axis in expr.attrs.axes])

    visit(real_transform(relax.Var("x", relax.TensorType((6, 1, 64), "float32")), [6, 1, 64], (1, 64)))
    assert products == 2
    assert all(axes[-1] == len(axes) - 1 for axes in moves)


def test_frames_of_a_signal_and_their_spectra(tmp_path: Path) -> None:
    """The file has 1 where its converter did not work a size out, and computes it when it runs."""
    sliced = "StridedSliceOptions ShrinkAxisMask=1"
    operators = [
        ("SHAPE", "ShapeOptions", "x sizes"),
        ("STRIDED_SLICE", sliced, "sizes one two one length"),
        ("FLOOR_DIV", "FloorDivOptions", "length half many"),
        ("PACK", "PackOptions ValuesCount=2", "many half framed"),
        ("RANGE", "RangeOptions", "zero many step starts"),
        ("PACK", "PackOptions ValuesCount=2", "zero zero begin"),
        ("PACK", "PackOptions ValuesCount=2", "step length end"),
        ("STRIDED_SLICE", "StridedSliceOptions", "x begin end ones whole"),
        ("RESHAPE", "ReshapeOptions", "whole framed frames"),
        ("EXPAND_DIMS", "ExpandDimsOptions", "frames middle wide"),
        ("RFFT2D", "Rfft2dOptions", "wide lengths bins"),
        ("SQUEEZE", "SqueezeOptions SqueezeDims=[-2]", "bins thin"),
        ("CAST", "CastOptions InDataType=8 OutDataType=0", "thin real"),
        ("CAST", "CastOptions InDataType=2 OutDataType=0", "starts numbers"),
        ("EXPAND_DIMS", "ExpandDimsOptions", "numbers middle column"),
        ("ADD", "AddOptions", "real column y"),
    ]
    scalar, pair = ("int32", ()), ("int32", (2,))
    tensors = {
        "x": ("float32", (1, 40)), "sizes": pair, "one": np.int32([1]), "two": np.int32([2]), "length": scalar,
        "half": np.int32(8), "many": scalar, "framed": pair, "zero": np.int32(0), "step": np.int32(1),
        "starts": ("int32", (1,)), "begin": pair, "end": pair, "ones": np.int32([1, 1]), "whole": ("float32", (1, 1)),
        "frames": ("float32", (1, 8)), "middle": np.int32(1), "wide": ("float32", (1, 1, 8)),
        "lengths": np.int32([1, 8]), "bins": ("complex64", (1, 1, 5)), "thin": ("complex64", (1, 5)),
        "real": ("float32", (1, 5)), "numbers": ("float32", (1,)), "column": ("float32", (1, 1)),
        "y": ("float32", (1, 5)),
    }  # fmt: skip
    path = written(tmp_path / "frames.tflite", operators, tensors, ["x"])
    x = RNG.standard_normal((1, 40)).astype("float32")
    expected = np.fft.rfft(x.reshape(5, 8)).real + np.arange(5)[:, None]
    np.testing.assert_allclose(run(path, x), expected, atol=1e-4)


def test_complex_numbers_that_are_refused(tmp_path: Path) -> None:
    """An operator that would take their parts for elements, and axes that cannot be left out."""
    bins = ("complex64", (2, 1, 5))
    tensors = {"x": ("float32", (2, 1, 8)), "lengths": np.int32([1, 8]), "bins": bins, "y": bins}
    spectrum = ("RFFT2D", "Rfft2dOptions", "x lengths bins")
    path = written(tmp_path / "product.tflite", [spectrum, ("MUL", "MulOptions", "bins bins y")], tensors, ["x"])
    with pytest.raises(UnsupportedOperatorError, match="MUL of complex numbers"):
        vmkit.compile(path, "llvm")
    squeezed = ("SQUEEZE", "SqueezeOptions SqueezeDims=[-1]", "bins y")
    path = written(tmp_path / "squeezed.tflite", [spectrum, squeezed], tensors, ["x"])
    with pytest.raises(ModelError, match=r"SQUEEZE of the axes \[-1\] of sizes \[2, 1, 5\]"):
        vmkit.compile(path, "llvm")
    tensors["lengths"] = np.int32([1, 0])
    path = written(tmp_path / "none.tflite", [spectrum, ("REAL", "AbsOptions", "bins y")], tensors, ["x"])
    with pytest.raises(ModelError, match=r"RFFT2D has the lengths \[1, 0\]"):
        vmkit.compile(path, "llvm")


def test_places_that_only_the_run_knows_are_refused(tmp_path: Path) -> None:
    tensors = {
        "x": ("float32", (6,)), "begin": ("int32", (1,)), "end": np.int32([6]), "ones": np.int32([1]),
        "y": ("float32", (3,)),
    }  # fmt: skip
    operators = [("STRIDED_SLICE", "StridedSliceOptions", "x begin end ones y")]
    path = written(tmp_path / "slice.tflite", operators, tensors, ["x", "begin"])
    with pytest.raises(UnsupportedOperatorError, match="an operator whose 'begin' only the run knows"):
        vmkit.compile(path, "llvm")


def test_known_sizes_are_results(tmp_path: Path) -> None:
    """What is known while the file is read is there when the program runs; so is what is too long for a shape."""
    tensors = {"x": ("float32", (2, 3)), "y": ("int32", (2,))}
    path = written(tmp_path / "shape.tflite", [("SHAPE", "ShapeOptions", "x y")], tensors, ["x"])
    np.testing.assert_array_equal(run(path, np.zeros((2, 3), "float32")), [2, 3])
    tensors = {"x": ("int32", (1,)), "first": np.int32(0), "last": np.int32(1 << 20), "step": np.int32(1)}
    ranged = [("RANGE", "RangeOptions", "first last step many"), ("ADD", "AddOptions", "x many y")]
    tensors |= {"many": ("int32", (1,)), "y": ("int32", (1,))}
    path = written(tmp_path / "range.tflite", ranged, tensors, ["x"])
    np.testing.assert_array_equal(run(path, np.int32([5])), np.arange(5, (1 << 20) + 5))
