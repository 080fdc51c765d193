"""Gated delta networks: every rule and gate, with tokens in a batch, of requests of one length, and of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, check, outputs_of, session
from vmkit.errors import ModelError, VMError

KEYS, VALUES, INNER, WIDTH = 2, 4, 3, 5
PACKED = 2 * KEYS * INNER + VALUES * WIDTH
GATES = {
    "a": array(VALUES, seed=30), "d": array(VALUES, seed=31), "d2": array(VALUES, INNER, seed=32),
    "d3": array(VALUES * INNER, seed=33),
}  # fmt: skip
SHAPES = {
    "q": [KEYS, INNER], "k": [KEYS, INNER], "v": [VALUES, WIDTH], "g": [VALUES], "g3": [VALUES, INNER], "b": [VALUES],
    "p": [PACKED],
}  # fmt: skip


def nodes(ends: str) -> list[onnx.NodeProto]:
    """Return a node for each rule and gate; with what is captured, where both widths of a decay are."""
    wide: dict[str, Any] = {"gate_activation": "softplus", "beta_activation": "sigmoid", "qk_l2_norm": 1, "scale": 0.3}
    low: dict[str, Any] = {"gate_activation": "kda", "gate_lower_bound": -2.0, "update_rule": "gated"}
    first: dict[str, Any] = {"gate_activation": "qwen", "qk_l2_norm": 1, "state_update_capacity": 3}
    return [
        ms("GatedDeltaNet", f"q k v {ends} g b s", "a0 a1"),
        ms("GatedDeltaNet", f"q k v {ends} g3 b s a d2", "b0 b1", **wide),
        ms("GatedDeltaNet", f"q k v {ends} g _ s a d", "c0 c1", **low),
        ms("GatedDeltaNet", f"q k v {ends} _ b s", "d0 d1", update_rule="delta", chunk_size=32),
        ms("GatedDeltaNet", f"q k v {ends} _ _ s", "e0 e1", update_rule="linear"),
        ms("GatedDeltaNet", f"q k v {ends} g3 b s a d3 c x", "f0 f1 f2", **first),
        ms(
            "GatedDeltaNet", f"q k v {ends} g b s a d c", "h0 h1 h2", state_update_capacity=2, gate_activation="sigmoid"
        ),
        ms("GatedDeltaNet", f"q k v {ends} _ _ s _ _ c", "i0 i1 i2", update_rule="linear", state_update_capacity=2),
        ms("GatedDeltaNet", f"p _ _ {ends} g b s", "j0 j1"),
    ]


def model(lead: Sequence[str], ends: str, made: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    inputs: dict[str, Any] = {name: ([*lead, *shape], "float32") for name, shape in SHAPES.items()}
    inputs |= {"s": (["n", VALUES, WIDTH, INNER], "float32"), "c": (["n"], "int32"), "x": ([1], "int32")}
    if ends != "_":
        inputs[ends] = (["ends"], "int32")
    return microsoft(made, inputs, outputs_of(made), GATES)


def feed(lead: Sequence[int], requests: int, is_active: bool = True) -> dict[str, np.ndarray]:
    given = {name: array(*lead, *shape, seed=i) / 2 for i, (name, shape) in enumerate(SHAPES.items())}
    given |= {"g": -np.abs(given["g"]), "g3": -np.abs(given["g3"]), "b": np.abs(given["b"])}
    counts = np.arange(1, requests + 1).astype("int32")
    state = array(requests, VALUES, WIDTH, INNER, seed=20)
    return given | {"s": state, "c": counts, "x": np.array([is_active], "int32")}


def test_texts_of_one_length_side_by_side() -> None:
    without_state = ms("GatedDeltaNet", "q k v _ g b", "k0 k1")
    proto = model(["n", "t"], "_", [*nodes("_"), without_state])
    check(proto, feed((1, 1), 1), feed((2, 5), 2), feed((2, 2), 2, is_active=False))


def test_texts_of_one_length_one_behind_the_other() -> None:
    _, wide, _, _, _, captured, _, _, packed = nodes("_")
    check(model(["t"], "_", [wide, captured, packed]), feed((1,), 1), feed((9,), 3))


def test_texts_of_several_lengths_one_behind_the_other() -> None:
    _, wide, low, _, linear, captured, _, _, packed = nodes("z")
    without_state = ms("GatedDeltaNet", "q k v z g b", "k0 k1")
    proto = model(["t"], "z", [wide, low, linear, captured, packed, without_state])
    feeds = [
        feed((sum(lengths),), len(lengths)) | {"z": np.cumsum([0, *lengths]).astype("int32")}
        for lengths in ([1], [3, 0, 6], [3, 2, 4])
    ]
    check(proto, *feeds)


def test_float16_is_computed_in_float32() -> None:
    made = [ms("GatedDeltaNet", "q k v z g b s", "a0 a1", qk_l2_norm=1)]
    proto = model(["t"], "z", made)
    for value in [*proto.graph.input, proto.graph.output[0]]:
        if value.name in ("q", "k", "v", "g", "b", "a0"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    half = {n: v.astype("float16") if n in "qkvgb" else v for n, v in feed((5,), 2).items()}
    half["z"] = np.array([0, 2, 5], "int32")
    for actual, expected in zip(Compiled(proto)(**half), session(proto).run(None, half), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-3)


def test_what_cannot_be_is_refused() -> None:
    def refused(inputs: str, **attributes: Any) -> str:
        with pytest.raises(ModelError) as caught:
            Compiled(model(["t"], "z", [ms("GatedDeltaNet", inputs, "y sy", **attributes)]))
        return str(caught.value)

    assert "update_rule 'gated_delta' needs input 'beta'" in refused("q k v z g _ s")
    assert "update_rule 'linear' has no input 'decay'" in refused("q k v z g _ s", update_rule="linear")
    assert "gate_activation 'softplus' needs the inputs a_log and dt_bias" in refused(
        "q k v z g b s", gate_activation="softplus"
    )
    assert "not known without cu_seqlens and initial_state" in refused("q k v _ g b")
    assert "key and value are given, or left out together" in refused("q k _ z g b s")
    assert "state_update_capacity is 2; capture_count is given" in refused("q k v z g b s", state_update_capacity=2)
    assert "2 heads of values and 4 of queries" in refused("v v q z g b s")


def test_ends_that_are_none_are_refused_when_the_program_runs() -> None:
    compiled = Compiled(model(["t"], "z", [ms("GatedDeltaNet", "q k v z g b s", "y sy")]))
    for ends in ([0, 3, 6], [1, 2, 5], [0, 6, 5]):
        with pytest.raises(VMError, match="ends of sequences begin with 0"):
            compiled(**feed((5,), 2), z=np.array(ends, "int32"))
