"""Weights of TFLite files that are stored sparse, or quantised for operators of floats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit.errors import ModelError, UnsupportedOperatorError

pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")

from tests.frontend.test_tflite import Sparse, model
from vmkit.frontend.tflite import from_tflite

ROWS = [("FULLY_CONNECTED", "FullyConnectedOptions", "x weight bias y")]
X = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")
BIAS = np.float32([1, 2, 3, 4])
WEIGHT = np.float32([[0, 0, 5, 0], [0, 0, 0, 0], [1, 0, 0, 2], [0, 3, 0, 0]])
NUMBERS = WEIGHT[WEIGHT != 0]


def result(path: Path, operators: list[tuple[str, str, str]], tensors: dict[str, object]) -> np.ndarray:
    """Return what a file with these tensors gives for X."""
    given = {"x": ("float32", X.shape), "bias": BIAS, "y": ("float32", (2, 4))}
    (path / "model.tflite").write_bytes(model(operators, {**given, **tensors}, ["x"]))
    return vmkit.VirtualMachine(vmkit.compile(path / "model.tflite", "llvm"), "cpu").run(X).numpy()


@pytest.mark.parametrize(("dtype", "zero"), [("int8", 0), ("int8", -3), ("uint8", 128)])
def test_a_quantised_weight_of_a_layer_of_floats(tmp_path: Path, dtype: str, zero: int) -> None:
    """What is given stays in float32, so that the result is that of the numbers that the weight stands for."""
    limits = np.iinfo(dtype)
    stored = np.random.default_rng(1).integers(limits.min, limits.max + 1, (4, 4)).astype(dtype)
    meant = (stored.astype("float32") - zero) * np.float32(0.25)
    actual = result(tmp_path, ROWS, {"weight": (stored, 0.25, zero)})
    np.testing.assert_allclose(actual, X @ meant.T + BIAS, rtol=1e-5, atol=1e-5)


def test_a_quantised_weight_that_others_read_as_it_is_stored(tmp_path: Path) -> None:
    stored = np.arange(16, dtype="int8").reshape(4, 4)
    both = [("DEQUANTIZE", "DequantizeOptions", "weight wide"), *ROWS]
    with pytest.raises(UnsupportedOperatorError, match="FULLY_CONNECTED"):
        result(tmp_path, both, {"weight": (stored, 0.25, 0), "wide": ("float32", (4, 4))})


def test_weights_of_float16_are_widened_when_the_file_is_read(tmp_path: Path) -> None:
    """Not on each call, and transposed only then: most of such a layer's time for a few rows."""
    both = [("DEQUANTIZE", "DequantizeOptions", "half weight"), *ROWS]
    stored = (WEIGHT / 3).astype("float16")
    actual = result(tmp_path, both, {"half": stored, "weight": ("float32", (4, 4))})
    np.testing.assert_allclose(actual, X @ stored.astype("float32").T + BIAS, rtol=1e-5)
    assert "astype" not in from_tflite(tmp_path / "model.tflite").script()


STORED = {
    "rows": Sparse((4, 4), NUMBERS, [4, ([0, 1, 1, 3, 4], [2, 0, 3, 1], "Uint8")], [0, 1]),
    "columns": Sparse((4, 4), np.float32([1, 3, 5, 2]), [4, ([0, 1, 2, 3, 4], [2, 3, 0, 2], "Uint16")], [1, 0]),
    "lists of lists": Sparse(
        (4, 4), NUMBERS, [([0, 3], [0, 2, 3], "Int32"), ([0, 1, 3, 4], [2, 0, 3, 1], "Int32")], [0, 1]
    ),
    "blocks": Sparse(
        (4, 4),
        np.float32([5, 0, 0, 0, 1, 0, 0, 3, 0, 2, 0, 0]),
        [2, ([0, 1, 3], [1, 0, 1], "Uint8"), 2, 2],
        [0, 1, 2, 3],
        (0, 1),
    ),
}


@pytest.mark.parametrize("form", STORED)
@pytest.mark.parametrize("is_half", [False, True])
def test_a_sparse_weight(tmp_path: Path, form: str, is_half: bool) -> None:
    kept = STORED[form]
    dtype = "float16" if is_half else "float32"
    stored = Sparse(kept.shape, kept.values.astype(dtype), kept.levels, kept.order, kept.blocks)
    if not is_half:
        operators = [("DENSIFY", "DensifyOptions", "sparse weight"), *ROWS]
        tensors: dict[str, object] = {"sparse": stored, "weight": ("float32", (4, 4))}
    else:
        widening = [("DENSIFY", "DensifyOptions", "sparse half"), ("DEQUANTIZE", "DequantizeOptions", "half weight")]
        operators = [*widening, *ROWS]
        tensors = {"sparse": stored, "half": (dtype, (4, 4)), "weight": ("float32", (4, 4))}
    np.testing.assert_allclose(result(tmp_path, operators, tensors), X @ WEIGHT.T + BIAS, rtol=1e-5, atol=1e-5)


def test_a_sparse_weight_that_nothing_makes_dense(tmp_path: Path) -> None:
    np.testing.assert_allclose(result(tmp_path, ROWS, {"weight": STORED["rows"]}), X @ WEIGHT.T + BIAS, rtol=1e-5)


@pytest.mark.parametrize(
    ("levels", "order", "blocks", "said"),
    [
        ([4, ([0, 1, 1, 3, 5], [2, 0, 3, 1], "Uint8")], [0, 1], (), "do not part its indices"),
        ([4, ([0, 2, 1, 3, 4], [2, 0, 3, 1], "Uint8")], [0, 1], (), "do not part its indices"),
        ([4, ([0, 1, 1, 3, 4], [4, 0, 3, 1], "Uint8")], [0, 1], (), "not below 4"),
        ([4, ([0, 1, 1, 3, 4], [2, 3, 3, 1], "Uint8")], [0, 1], (), "not in order"),
        ([4, ([0, 1, 1, 3, 4], [2, 0, 3, -1], "Int32")], [0, 1], (), "not below 4"),
        ([4, ([0, 1, 1, 2, 3], [2, 0, 1], "Uint8")], [0, 1], (), "3 elements for 4"),
        ([4, 4], [0, 1], (), "at least 16 places for 4 elements"),
        ([5, 4], [0, 1], (), "5 places where the tensor has 4"),
        ([4, 4], [0, 0], (), "levels"),
        ([4, 4, 4], [0, 1, 2], (), "levels"),
        ([2, 2, 3, 2], [0, 1, 2, 3], (0, 1), "blocks of"),
        ([2, 2, 2, 2], [0, 1, 2, 3], (0, 7), "blocks along"),
        ([2, 2, 0, 2], [0, 1, 2, 3], (0, 1), "blocks of"),
    ],
)
def test_a_sparsity_that_contradicts_itself(
    tmp_path: Path, levels: list, order: list[int], blocks: tuple[int, ...], said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        result(tmp_path, ROWS, {"weight": Sparse((4, 4), NUMBERS, levels, order, blocks)})


def test_a_sparsity_of_more_places_than_memory_has(tmp_path: Path) -> None:
    weight = Sparse((1 << 30, 4), NUMBERS, [1 << 30, 4], [0, 1])
    with pytest.raises(ModelError, match="at least 1073741824 places for 4 elements"):
        result(tmp_path, ROWS, {"weight": weight})


def test_scales_that_do_not_fit_are_refused() -> None:
    from vmkit.frontend.tflite_weights import widened

    with pytest.raises(ValueError, match="3 scales along axis 0"):
        widened(np.zeros((4, 4), "int8"), np.float32([1, 2, 3]), 0, 0)


def test_scales_along_an_axis() -> None:
    from vmkit.frontend.tflite_weights import widened

    stored, scales = np.arange(-6, 6, dtype="int8").reshape(3, 4), np.float32([0.5, 1, 2])
    np.testing.assert_array_equal(widened(stored, scales, 0, 0), stored * scales[:, None])
    np.testing.assert_array_equal(widened(stored.T.copy(), scales, 0, 1), stored.T * scales)
