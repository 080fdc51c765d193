"""Streams that are mixed, and the gate that values go through for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check, outputs_of, session
from vmkit.errors import ModelError

# Three streams of four features: x, and flat in f; gates for a stream (g, g1), for each feature (h), flat (k, hf).
SHAPES: dict[str, list[int]] = {
    "x": [3, 4], "f": [12], "g": [3], "g1": [3, 1], "h": [3, 4], "hf": [12], "m": [3, 3], "o": [4],
}  # fmt: skip


def inputs(names: dict[str, list[int]]) -> dict[str, Any]:
    """Return inputs of which no size is known."""
    letters = {3: "c", 4: "w", 12: "all", 1: 1}
    return {name: (["b", "t", *(letters[d] for d in shape)], "float32") for name, shape in names.items()}


def feeds(names: dict[str, list[int]]) -> list[dict[str, np.ndarray]]:
    return [
        {name: array(b, t, *shape, seed=i) for i, (name, shape) in enumerate(names.items())}
        for b, t in ((1, 2), (2, 5))
    ]


def test_streams() -> None:
    before, after = "HyperConnectionPreMix", "HyperConnectionPostMix"
    nodes = [
        ms(before, "x g", "a"), ms(before, "x g1", "b", reduction_scale=0.5), ms(before, "x h", "c"),
        ms(before, "f g", "d", num_branches=3), ms(before, "f hf", "e", num_branches=3),
        ms(before, "f h", "i", num_branches=3), ms(after, "x o g", "p"), ms(after, "x o g1 m", "q"),
        ms(after, "x o h m", "r"), ms(after, "f o g m", "s", num_branches=3), ms(after, "f o h", "u", num_branches=3),
    ]  # fmt: skip
    check(microsoft(nodes, inputs(SHAPES), outputs_of(nodes)), *feeds(SHAPES))


def test_float16_streams_with_float32_gates() -> None:
    nodes = [ms("HyperConnectionPreMix", "x g", "a"), ms("HyperConnectionPostMix", "x o g m", "b")]
    names = {n: SHAPES[n] for n in ("x", "g", "o", "m")}
    proto = microsoft(nodes, inputs(names), "a b")
    for value in [*proto.graph.input, *proto.graph.output]:
        if value.name in ("x", "o", "a", "b"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    feed = {n: v.astype("float16") if n in "xo" else v for n, v in feeds(names)[1].items()}
    for actual, expected in zip(Compiled(proto)(**feed), session(proto).run(None, feed), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)


def test_a_gate_by_similarity() -> None:
    nodes = [
        ms("EngramGate", "x h o s r", "a"), ms("EngramGate", "x h o s r n", "c d", epsilon=1e-3),
        ms("EngramGate", "x h o s r n", "e"),
    ]  # fmt: skip
    names = {n: SHAPES[n] for n in ("x", "h", "o")}
    scales: dict[str, Any] = {n: (["c", "w"], "float32") for n in "srn"}
    given = [f | {n: array(3, 4, seed=i) for i, n in enumerate("srn", 5)} for f in feeds(names)]
    # Keys that are orthogonal to the queries: nothing is similar, and the gate is half open.
    given[1]["x"][0, 0] = 0
    check(microsoft(nodes, inputs(names) | scales, outputs_of(nodes)), *given)


def test_what_cannot_be_is_refused() -> None:
    names = {"x": SHAPES["x"], "f": SHAPES["f"], "o": [4], "s": [3, 4]}

    def refused(op_type: str, given: str, outputs: str, **attributes: Any) -> str:
        known: dict[str, Any] = {n: (["b", "t", *s], "float32") for n, s in names.items()}
        with pytest.raises(ModelError) as caught:
            Compiled(microsoft([ms(op_type, given, outputs, **attributes)], known, outputs.split()[0]))
        return str(caught.value)

    assert "no multiple of it" in refused("HyperConnectionPreMix", "f f", "y", num_branches=5)
    assert "the second output" in refused("EngramGate", "x x o s s", "y z")
    assert "it has a row for each stream" in refused("EngramGate", "x x o s s", "y")
