"""What tests of sub-commands share: a small model's file, and commands whose exit code is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vmkit.cli import ExitCode, main


def save(path: Path, *nodes: onnx.NodeProto, **weights: np.ndarray) -> Path:
    """Write a model from ``x: float32[n, 1, 6, 6]`` to ``y``."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: ExitCode = ExitCode.OK) -> str:
    """Return what a command prints that ends with a code: on stderr where that is an error."""
    capsys.readouterr()
    assert main([str(word) for word in words]) == code
    out, err = capsys.readouterr()
    return out if code in (ExitCode.OK, ExitCode.MISMATCH) else err


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return what a command says that cannot be done."""
    return printed(capsys, *words, code=ExitCode.MODEL)
