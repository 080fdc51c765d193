"""Activations of com.microsoft, at several sizes of one compilation."""

from __future__ import annotations

from math import erf

import numpy as np

from tests.frontend.onnx.microsoft.models import ROWS, WIDTH, X, microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check


def test_activations() -> None:
    nodes = [
        ms("Gelu", "x", "a"), ms("BiasGelu", "x w", "c"), ms("FastGelu", "x w", "d"), ms("FastGelu", "x", "e"),
        ms("QuickGelu", "x", "f", alpha=1.3),
    ]  # fmt: skip
    check(microsoft(nodes, X, "a c d e f", {"w": array(WIDTH, seed=3)}), *ROWS)


def test_what_onnxruntime_has_for_other_devices_only() -> None:
    nodes = [
        ms("BiasSoftmax", "x m", "a", axis=3, is_inner_broadcast=1), ms("BiasDropout", "x m x", "c"),
        ms("BiasSplitGelu", "x w", "d"), ms("BiasAdd", "x w x", "e"), ms("ComplexMul", "x x", "f"),
        ms("GroupNorm", "x w w", "g", groups=2, activation=1),
    ]  # fmt: skip
    inputs = {"x": (["b", "h", "s", 8], "float32"), "m": (["b", 1, 1, 8], "float32")}
    x, m, w = array(2, 2, 3, 8), array(2, 1, 1, 8, seed=1), array(8, seed=2)
    powers = np.exp(x + m)
    halves = np.split(x + w, 2, -1)
    pairs = x[..., :4] + 1j * x[..., 4:]
    groups = x.reshape(2, 2, 3, 2, 4)
    centred = groups - groups.mean((1, 2, 4), keepdims=True)
    normal = (centred / np.sqrt(groups.var((1, 2, 4), keepdims=True) + 1e-5)).reshape(x.shape) * w + w
    gelu = halves[1] * 0.5 * (1 + np.vectorize(erf)(halves[1] / np.sqrt(2)))
    expected = [
        powers / powers.sum(-1, keepdims=True), x + m + x, halves[0] * gelu, x + w + x,
        np.concatenate([(pairs * pairs).real, (pairs * pairs).imag], -1), normal / (1 + np.exp(-normal)),
    ]  # fmt: skip
    results = Compiled(microsoft(nodes, inputs, "a c d e f g", {"w": w}))(x=x, m=m)
    assert_agrees(results, [e.astype("float32") for e in expected], list("acdefg"))


def test_the_domain_need_not_be_imported() -> None:
    proto = microsoft([ms("FastGelu", "x", "y")], X, "y")
    del proto.opset_import[-1]
    assert [o.domain for o in proto.opset_import] == [""]
    x = ROWS[0]["x"]
    expected = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert_agrees(Compiled(proto)(x=x), [expected.astype("float32")], ["y"])
