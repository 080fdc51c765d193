"""TFLite files whose inputs have sizes that the caller gives, and what is said where the importer fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit.errors import InputError, ModelError, UnsupportedOperatorError

pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")

from tests.frontend.test_tflite import model

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((3, 1, 4, 1)).astype("float32")
BIAS = np.float32([1, 2, 3])
MATRIX = RNG.standard_normal((3, 2)).astype("float32")
CONV = "Conv2DOptions Padding=1 StrideH=1 StrideW=2"


def windows(folder: Path, first: int = -1) -> Path:
    """Return a file of windows over a signal (first, -1), their products with a matrix, and all of them in a row."""
    operators = [
        ("EXPAND_DIMS", "ExpandDimsOptions", "x one wide"),
        ("EXPAND_DIMS", "ExpandDimsOptions", "wide last whole"),
        ("CONV_2D", CONV, "whole weight bias seen"),
        ("BATCH_MATMUL", "BatchMatMulOptions", "seen matrix made"),
        ("RESHAPE", "ReshapeOptions", "made shape y"),
    ]
    tensors = {
        "x": ("float32", (first, -1)), "one": np.int32(1), "wide": ("float32", (first, 1, -1)), "last": np.int32(-1),
        "whole": ("float32", (first, 1, -1, 1)), "weight": WEIGHT, "bias": BIAS,
        "seen": ("float32", (first, 1, -1, 3)), "matrix": MATRIX, "made": ("float32", (first, 1, -1, 2)),
        "shape": np.int32([1, -1]), "y": ("float32", (1, -1)),
    }  # fmt: skip
    path = folder / "windows.tflite"
    path.write_bytes(model(operators, tensors, ["x"]))
    return path


def expected(x: np.ndarray) -> np.ndarray:
    """Return what the file gives."""
    seen = np.stack([x[:, at : at + 4] @ WEIGHT[:, 0, :, 0].T for at in range(0, x.shape[1] - 3, 2)], 1) + BIAS
    return (seen @ MATRIX).reshape(1, -1)


@pytest.mark.parametrize("shape", [(1, 4), (1, 11), (3, 8)])
def test_sizes_that_the_caller_gives(tmp_path: Path, shape: tuple[int, int]) -> None:
    path, x = windows(tmp_path), RNG.standard_normal(shape).astype("float32")
    assert str(vmkit.check(path, shapes={"x": shape}).signature).startswith(f"main(x: float32[{shape[0]}, {shape[1]}])")
    machine = vmkit.VirtualMachine(vmkit.compile(path, "llvm", shapes={"x": shape}), "cpu")
    np.testing.assert_allclose(machine.run(x).numpy(), expected(x), rtol=1e-5, atol=1e-5)


def test_sizes_in_the_file_that_stand_for_others(tmp_path: Path) -> None:
    """The window does not fit on the one element that the file says."""
    said = r"CONV_2D gives sizes \[1, 1, -\d, 3\].*the file leaves sizes to the caller: 'x' is \[\? \(1\), \? \(1\)\]"
    with pytest.raises(ModelError, match=said):
        vmkit.compile(windows(tmp_path), "llvm")
    report = vmkit.check(windows(tmp_path))
    assert not report.is_supported and "give them with shapes={'x': [...]}" in str(report.problem)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ([2, 8], r"'x' is \[1, \? \(1\)\] in the file; \[2, 8\] differs in what is fixed"),
        ([8], r"'x' has 2 dimensions, and \[8\] has 1"),
        ([1, "n"], "of a TFLite file they are numbers from 1 on"),
        ([1, 0], "of a TFLite file they are numbers from 1 on"),
    ],
)
def test_shapes_that_do_not_fit(tmp_path: Path, shape: Sequence[object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        vmkit.compile(windows(tmp_path, 1), "llvm", shapes={"x": shape})
    with pytest.raises(InputError, match="no input 'z'"):
        vmkit.check(windows(tmp_path, 1), shapes={"z": [1, 8]})


def test_sizes_that_an_operator_takes_from_the_file_are_refused(tmp_path: Path) -> None:
    """The importer reads the blocks of a result from the file, which has those of other inputs."""
    operators = [("SPACE_TO_BATCH_ND", "SpaceToBatchNDOptions", "x block around y")]
    tensors = {
        "x": ("float32", (1, -1, 4, 1)), "block": np.int32([1, 2]), "around": np.int32([[0, 0], [0, 0]]),
        "y": ("float32", (2, -1, 2, 1)),
    }  # fmt: skip
    path = tmp_path / "blocks.tflite"
    path.write_bytes(model(operators, tensors, ["x"]))
    with pytest.raises(UnsupportedOperatorError, match="takes from the file what depends on the sizes of the inputs"):
        vmkit.compile(path, "llvm", shapes={"x": [1, 6, 4, 1]})


def test_an_operator_at_which_the_importer_fails_is_named(tmp_path: Path) -> None:
    tensors = {"x": ("float32", (2, 3)), "z": ("float32", (4, 3)), "y": ("float32", (2, 3))}
    path = tmp_path / "sum.tflite"
    path.write_bytes(model([("ADD", "AddOptions", "x z y")], tensors, ["x", "z"]))
    with pytest.raises(ModelError, match=r"sum.tflite: .*ADD of \(float32\[2, 3\], float32\[4, 3\]\)"):
        vmkit.compile(path, "llvm")
