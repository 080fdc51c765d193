"""Nodes over weights are computed at import, most of them without ONNX's reference implementation."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import array, model, node
from vmkit.frontend.onnx import fold
from vmkit.relay.frontend import from_onnx
from vmkit.relay.ir import Constant

W = array(2, 3, 4)
MOVED = [
    (node("Reshape", "w shape", "y"), W.reshape(6, 4)),
    (node("Transpose", "w", "y", perm=[2, 0, 1]), W.transpose(2, 0, 1)),
    (node("Unsqueeze", "w axes", "y"), W[:, None]),
    (node("Flatten", "w", "y", axis=1), W.reshape(2, 12)),
    (node("Add", "w w", "y"), W + W),
    (node("Cast", "w", "y", to=onnx.TensorProto.DOUBLE), W.astype("float64")),
]


@pytest.mark.parametrize(("made", "expected"), MOVED, ids=[made.op_type for made, _ in MOVED])
def test_what_numpy_computes_of_weights_needs_no_reference(
    monkeypatch: pytest.MonkeyPatch, made: onnx.NodeProto, expected: np.ndarray
) -> None:
    monkeypatch.setattr(fold, "evaluate", lambda *_: pytest.fail("the reference was asked"))
    weights = {"w": W, "shape": np.array([6, 4]), "axes": np.array([1])}
    module, _ = from_onnx(model([made], {}, "y", weights))
    body = module["main"].body
    assert isinstance(body, Constant)
    np.testing.assert_array_equal(body.data.numpy(), expected, strict=True)


def test_what_numpy_does_not_compute_is_asked_of_the_reference() -> None:
    module, _ = from_onnx(model([node("Erf", "w", "y")], {}, "y", {"w": W}))
    body = module["main"].body
    assert isinstance(body, Constant)
    np.testing.assert_allclose(body.data.numpy(), np.vectorize(math.erf)(W), rtol=1e-6)
