"""Mixtures of experts beside onnxruntime, and beside numpy what its CPU kernels lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, session
from vmkit.errors import ModelError

EXPERTS, HIDDEN, INNER = 4, 32, 16
INPUTS = {"x": (["n", HIDDEN], "float32"), "r": (["n", EXPERTS], "float32")}
WEIGHTS = {
    "f1": array(EXPERTS, INNER, HIDDEN) / 4, "b1": array(EXPERTS, INNER, seed=1),
    "f2": array(EXPERTS, HIDDEN, INNER, seed=2) / 4, "b2": array(EXPERTS, HIDDEN, seed=3),
    "f3": array(EXPERTS, INNER, HIDDEN, seed=4) / 4, "b3": array(EXPERTS, INNER, seed=5),
}  # fmt: skip
FEEDS: list[dict[str, Any]] = [{"x": array(n, HIDDEN), "r": array(n, EXPERTS, seed=6)} for n in (1, 5)]


def test_experts() -> None:
    pairs = {"w1": array(EXPERTS, 2 * INNER, HIDDEN) / 4, "c1": array(EXPERTS, 2 * INNER, seed=1)}
    gated = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
    nodes = [
        ms("MoE", "x r f1 b1 f2 b2", "a", k=2), ms("MoE", "x r f1 _ f2", "b", k=3, normalize_routing_weights=1),
        ms("MoE", "x r f1 b1 f2 b2", "c", activation_type="silu"),
        ms("MoE", "x r f1 _ f2", "d", activation_type="gelu"),
        ms("MoE", "x r f1 _ f2", "e", k=2, activation_type="identity"),
        ms("MoE", "x r w1 c1 f2 b2", "f", k=2, swiglu_limit=0.5, **gated),
    ]  # fmt: skip
    used = {n: v for n, v in (WEIGHTS | pairs).items() if "3" not in n}
    check(microsoft(nodes, INPUTS, "a b c d e f", used), *FEEDS)


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _expected(x: np.ndarray, shares: np.ndarray) -> np.ndarray:
    w = WEIGHTS
    inner = _silu(np.einsum("nh,eih->nei", x, w["f1"]) + w["b1"]) * (np.einsum("nh,eih->nei", x, w["f3"]) + w["b3"])
    return np.einsum("ne,neh->nh", shares, np.einsum("nei,ehi->neh", inner, w["f2"]) + w["b2"])


def test_experts_with_a_gate_of_their_own() -> None:
    nodes = [ms("MoE", "x r f1 b1 f2 b2 f3 b3", "y", k=1, activation_type="silu")]
    compiled = Compiled(microsoft(nodes, INPUTS, "y", WEIGHTS))
    for feed in FEEDS:
        powers = np.exp(feed["r"])
        shares = np.where(feed["r"] == feed["r"].max(1, keepdims=True), powers / powers.sum(1, keepdims=True), 0)
        assert_agrees(compiled(**feed), [_expected(feed["x"], shares).astype("float32")], ["y"])


def test_two_experts_that_are_near_to_the_best() -> None:
    nodes = [ms("MoE", "x r f1 b1 f2 b2 f3 b3", "y", k=2, activation_type="silu", use_sparse_mixer=1)]
    scores = np.array([[3.0, 2.99, 2.97, 1.0], [1.0, -2.0, 0.5, 0.495], [-1.0, -1.01, -3.0, -4.0]], "float32")
    # Scores that are less than the largest by more than 2 % are not mixed in.
    near = np.exp([3.0, 2.99, 2.97])
    second = near[1] / near[1:].sum()
    fourth = 1 / (1 + np.exp(0.495 - 0.5))
    both = 1 / (1 + np.exp(-0.01))
    shares = [[near[0] / near.sum(), second, 0, 0], [1, 0, fourth, 0], [both, 1, 0, 0]]
    feed = {"x": array(3, HIDDEN), "r": scores}
    expected = _expected(feed["x"], np.array(shares)).astype("float32")
    assert_agrees(Compiled(microsoft(nodes, INPUTS, "y", WEIGHTS))(**feed), [expected], ["y"])


@pytest.mark.parametrize(("bits", "block"), [(4, 0), (4, 16), (8, 0), (8, 32)])
def test_experts_of_few_bits(bits: int, block: int) -> None:
    random = np.random.default_rng(0)
    sizes = {"1": (2 * HIDDEN, HIDDEN), "2": (HIDDEN, HIDDEN)}
    constants = {}
    for name, (outputs, inputs) in sizes.items():
        blocks = (inputs // block,) if block else ()
        zeros = (EXPERTS, outputs, -(-inputs // block * bits // 8)) if block else (EXPERTS, outputs * bits // 8)
        constants["w" + name] = random.integers(0, 256, (EXPERTS, outputs, inputs * bits // 8), "uint8")
        constants["s" + name] = random.uniform(0.5, 1, (EXPERTS, outputs, *blocks)).astype("float32") / 2 ** (bits + 1)
        constants["z" + name] = random.integers(0, 256, zeros, "uint8")
    settings: dict[str, Any] = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": bits}
    settings |= {"block_size": block} if block else {}
    nodes = [
        ms("QMoE", "x r w1 s1 _ w2 s2", "a", **settings),
        ms("QMoE", "x r w1 s1 _ w2 s2 _ _ _ _ z1 z2", "b", **settings),
        ms("QMoE", "x r w1 s1 _ w2 s2 _ _ _ _ _ _ _ t", "c", normalize_routing_weights=1, **settings),
    ]  # fmt: skip
    proto = microsoft(nodes, INPUTS | {"t": (["n", EXPERTS], "float32")}, "a b c", constants)
    feeds = [feed | {"t": np.abs(feed["r"])} for feed in FEEDS]
    if bits == 4 or not block:
        check(proto, *feeds)
        return
    # onnxruntime rounds activations to 8 bits beside blocks of 8 bits.
    compiled, peer = Compiled(proto), session(proto)
    for feed in feeds:
        for actual, expected in zip(compiled(**feed), peer.run(None, feed), strict=True):
            np.testing.assert_allclose(actual, expected, atol=0.05 * np.abs(expected).max())


def test_experts_that_cannot_be_are_refused() -> None:
    def refused(inputs: str, **attributes: Any) -> str:
        with pytest.raises(ModelError) as caught:
            Compiled(microsoft([ms("MoE", inputs, "y", **attributes)], INPUTS, "y", WEIGHTS))
        return str(caught.value)

    assert "k is 5, and there are 4 experts" in refused("x r f1 b1 f2", k=5)
    assert "use_sparse_mixer chooses 2 experts; k is 1" in refused("x r f1 b1 f2", use_sparse_mixer=1)
    assert "activation_type is 'tanh'" in refused("x r f1 b1 f2", activation_type="tanh")
    assert "give swiglu_fusion or fc3" in refused("x r f1 b1 f2", activation_type="swiglu")
