"""Operators of com.microsoft that move and make elements."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check


def test_tensors() -> None:
    nodes = [
        ms("GatherND", "x i", "a"), ms("ExpandDims", "x axis", "c"), ms("Unique", "u", "d e f"),
        ms("Trilu", "m k", "g", upper=0), ms("Pad", "x pads", "h"), ms("Inverse", "m", "j"),
        ms("CDist", "x o", "l", metric="euclidean"), ms("Range", "first end", "n"),
        ms("CropAndResize", "z r w size", "p"),
    ]  # fmt: skip
    inputs = {
        "x": (["n", 3], "float32"), "i": (["k", 2], "int64"), "u": (["l"], "float32"), "m": (["n", 4, 4], "float32"),
        "o": (["l", 3], "float32"), "end": ([], "float32"), "z": (["n", 2, "h", 7], "float32"),
        "r": (["k", 4], "float32"), "w": (["k"], "int32"),
    }  # fmt: skip
    constants = {
        "axis": np.array(1, "int32"), "k": np.array(1), "pads": np.array([0, 1, 2, 0]), "first": np.float32(1),
        "size": np.array([3, 4], "int32"),
    }  # fmt: skip
    feed = {
        "x": array(4, 3), "i": np.array([[0, 1], [3, 2]]), "u": np.array([2, 1, 1, 3, 4, 3], "float32"),
        "m": array(4, 4, 4), "o": array(6, 3, seed=3), "end": np.float32(5), "z": array(4, 2, 6, 7),
        "r": np.array([[0.1, 0.2, 0.8, 0.9], [0, 0, 1.2, 1]], "float32"), "w": np.array([0, 3], "int32"),
    }  # fmt: skip
    integers = {"e": TensorProto.INT64, "f": TensorProto.INT64}
    proto = microsoft(nodes, inputs, "a c d e f g h j l n p", constants, integers)
    check(proto, {n: np.asarray(v) for n, v in feed.items()})


def test_windows_and_repetitions() -> None:
    nodes = [
        ms("UnfoldTensor", "x", "a", size=3), ms("UnfoldTensor", "x", "c", dim=1, size=2, step=2),
        ms("NGramRepeatBlock", "i s", "d", ngram_size=3), ms("NGramRepeatBlock", "i s", "e", ngram_size=1),
    ]  # fmt: skip
    inputs = {"x": (["b", "s", 7], "float32"), "i": (["b", "t"], "int64"), "s": (["b", 6], "float32")}
    feeds = []
    for b, s, t in ((1, 2, 2), (2, 5, 9), (2, 4, 3)):
        feeds.append({"x": array(b, s, 7), "i": np.arange(b * t).reshape(b, t) % 5 % 3, "s": array(b, 6)})
    check(microsoft(nodes, inputs, "a c d e"), *feeds)


def test_rows_of_a_table() -> None:
    proto = microsoft([ms("TorchEmbedding", "w i", "y")], {"i": (["n", "m"], "int64")}, "y", {"w": array(5, 3)})
    indices = np.array([[0, 4], [2, 2]])
    np.testing.assert_array_equal(Compiled(proto)(i=indices)[0], array(5, 3)[indices])
