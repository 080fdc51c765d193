"""StableHLO as jax writes it, computed as written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
from vmkit.errors import ModelError, UnsupportedOperatorError

TEXT = """
module @jit_f {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<2x4xf32>) -> (tensor<2x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.maximum %0, %arg2 : tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
}
"""  # noqa: E501 - as jax writes it


@pytest.fixture(autouse=True)
def importer() -> None:
    pytest.importorskip("jax", reason="jax is not installed: pip install '.[stablehlo]'")
    ir = pytest.importorskip("jaxlib.mlir.ir")
    if not hasattr(ir.ShapedType, "isinstance"):
        pytest.skip("jax is newer than TVM's importer: pip install '.[stablehlo]'")


def saved(folder: Path, text: str) -> Path:
    (folder / "model.mlir").write_text(text)
    return folder / "model.mlir"


def test_results_are_those_of_numpy(tmp_path: Path) -> None:
    machine = vmkit.VirtualMachine(vmkit.compile(saved(tmp_path, TEXT), "llvm"), "cpu")
    a, b, c = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in ((2, 3), (3, 4), (2, 4)))
    np.testing.assert_allclose(machine.run(a, b, c).numpy(), np.maximum(a @ b, c), rtol=1e-5, atol=1e-6)


def test_operators_without_a_converter_are_named(tmp_path: Path) -> None:
    text = TEXT.replace("stablehlo.maximum %0, %arg2", "stablehlo.atan2 %0, %arg2")
    with pytest.raises(UnsupportedOperatorError, match=r"model.mlir: TVM's importer has no converter: .*atan2"):
        vmkit.compile(saved(tmp_path, text))


def test_several_results_are_refused(tmp_path: Path) -> None:
    text = TEXT.replace("return %1 : tensor<2x4xf32>", "return %0, %1 : tensor<2x4xf32>, tensor<2x4xf32>")
    text = text.replace("-> (tensor<2x4xf32>) {", "-> (tensor<2x4xf32>, tensor<2x4xf32>) {")
    with pytest.raises(UnsupportedOperatorError, match="functions of one result, not %0, %1"):
        vmkit.compile(saved(tmp_path, text))


def test_what_is_no_stablehlo(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model.mlir: TVM's importer fails at it"):
        vmkit.compile(saved(tmp_path, "nonsense"))
