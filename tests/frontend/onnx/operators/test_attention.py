"""Attention and its relatives in ONNX's domains, at sizes that the compilation does not know."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import vmkit
from tests.frontend.onnx.feeds import four
from tests.frontend.onnx.programs import (
    Compiled,
    agrees_with_reference,
    array,
    assert_agrees,
    graph,
    model,
    node,
    operators,
)
from vmkit.errors import ModelError, VMError
from vmkit.relay.frontend import from_onnx

SIZES = [(1, 3, 4), (2, 5, 5), (3, 1, 6)]  # batch, queries, keys


HEADS = {"q": (["b", 4, "s", 16], "float32"), "k": (["b", 2, "t", 16], "float32"), "v": (["b", 2, "t", 32], "float32")}


def heads(b: int, s: int, t: int) -> dict[str, np.ndarray]:
    return {"q": four(b, 4, s, 16, 0), "k": four(b, 2, t, 16, 1), "v": four(b, 2, t, 32, 2)}


def test_heads_that_share_keys() -> None:
    nodes = [
        node("Attention", "q k v", "a"), node("Attention", "q k v m", "c", scale=0.3),
        node("Attention", "q k v n", "d", softcap=2.0), node("Attention", "q k v", "e", is_causal=1),
        node("Attention", "q k v h", "f _ _ g", qk_matmul_output_mode=3),
        node("Attention", "q k v n", "i", is_causal=1),
    ]  # fmt: skip
    inputs = HEADS | {
        "m": (["s", "t"], "bool"), "n": (["b", 1, "s", "t"], "float32"), "h": (["b", 4, 1, "t"], "float32"),
    }  # fmt: skip
    feeds = []
    for b, s, t in SIZES:
        mask = np.arange(s * t).reshape(s, t) % 3 > 0
        mask[0] = False  # the result of a query that sees nothing is 0
        feeds.append(heads(b, s, t) | {"m": mask, "n": four(b, 1, s, t, 4), "h": four(b, 4, 1, t, 5)})
    agrees_with_reference(model(nodes, inputs, "a c d e f g i", opset=24), *feeds)


def test_heads_of_which_only_the_names_are_known() -> None:
    inputs = {name: ([f"{name}{i}" for i in range(4)], "float32") for name in "qkv"}
    proto = model([node("Attention", "q k v", "y", is_causal=1)], inputs, "y", opset=24)
    compiled = agrees_with_reference(
        proto, heads(1, 3, 4), heads(2, 5, 5), heads(3, 1, 6) | {"q": four(3, 2, 1, 16, 0)}
    )
    with pytest.raises(VMError, match="Attention: the heads of queries are no multiple of those of keys"):
        compiled(**heads(1, 3, 4) | {"q": four(1, 3, 3, 16, 0)})


def test_caches_and_masks_that_are_too_short() -> None:
    nodes = [node("Attention", "q k v m pk pv", "a ck cv d", is_causal=1, q_num_heads=4, kv_num_heads=2)]
    inputs = {
        "q": (["b", "s", 64], "float32"), "k": (["b", "s", 32], "float32"), "v": (["b", "s", 32], "float32"),
        "pk": (["b", 2, "p", 16], "float32"), "pv": (["b", 2, "p", 16], "float32"), "m": (["s", "c"], "float32"),
    }  # fmt: skip
    feeds = [
        {
            "q": array(b, s, 64), "k": array(b, s, 32, seed=1), "v": array(b, s, 32, seed=2),
            "pk": four(b, 2, p, 16, 3), "pv": four(b, 2, p, 16, 4), "m": array(s, c, seed=5),
        }
        for b, s, p, c in ((1, 3, 2, 5), (2, 1, 6, 6), (1, 2, 0, 2))
    ]  # fmt: skip
    agrees_with_reference(model(nodes, inputs, "a ck cv d", opset=23), *feeds)


def test_windows_and_caches_filled_to_different_lengths() -> None:
    nodes = [
        node("Attention", "q k v _ _ _ n", "a", is_causal=1),
        node("Attention", "q k v _ _ _ n", "c", left_window_size=1, right_window_size=1),
        node("Attention", "q k v", "d", left_window_size=2),
    ]
    inputs = HEADS | {"n": (["b"], "int64")}
    feeds = [heads(b, s, t) | {"n": (t - np.arange(b)).astype("int64")} for b, s, t in SIZES]
    agrees_with_reference(model(nodes, inputs, "a c d", opset=25), *feeds)


def _unnamed(ranks: dict[str, int], nodes: list[onnx.NodeProto], outputs: str) -> onnx.ModelProto:
    """Return a model of tensors of which only the number of dimensions is known."""
    first = [node("Reshape", f"{n}_all {n}_size", n, allowzero=1) for n in ranks]
    inputs: Any = {f"{n}_all": ([f"{n}_count"], "float32") for n in ranks}
    inputs |= {f"{n}_size": ([rank], "int64") for n, rank in ranks.items()}
    return model([*first, *nodes], inputs, outputs, opset=24)


def _flat(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    sizes = {f"{n}_size": np.array(a.shape, "int64") for n, a in arrays.items()}
    return {f"{n}_all": a.ravel() for n, a in arrays.items()} | sizes


def test_sizes_of_which_nothing_is_known() -> None:
    nodes = [
        node("Attention", "q k v", "a", q_num_heads=4, kv_num_heads=2, is_causal=1),
        node("Attention", "q k v m", "c d e", q_num_heads=4, kv_num_heads=2),
    ]
    feeds = [
        _flat(q=array(b, s, 32), k=array(b, t, 16, seed=1), v=array(b, t, 24, seed=2), m=array(b, 1, s, t, seed=3))
        for b, s, t in SIZES
    ]
    agrees_with_reference(_unnamed({"q": 3, "k": 3, "v": 3, "m": 4}, nodes, "a c d e"), *feeds)


def test_heads_of_which_nothing_is_known() -> None:
    feeds = [
        _flat(q=four(b, h, s, 8, 0), k=four(b, 2, t, 8, 1), v=four(b, 2, t, 4, 2), m=array(s, t, seed=3))
        for (b, s, t), h in zip(SIZES, (4, 2, 6), strict=True)
    ]
    proto = _unnamed({"q": 4, "k": 4, "v": 4, "m": 2}, [node("Attention", "q k v m", "y")], "y")
    compiled = agrees_with_reference(proto, *feeds)
    wrong = _flat(q=four(1, 3, 2, 8, 0), k=four(1, 2, 2, 8, 1), v=four(1, 2, 2, 4, 2), m=array(2, 2))
    with pytest.raises(VMError, match="the heads of queries are no multiple of those of keys"):
        compiled(**wrong)


def test_attention_is_one_kernel_where_sizes_are_symbols() -> None:
    inputs = HEADS | {"m": (["b", 1, 1, "t"], "bool")}
    nodes = [node("Attention", "q k v", "a", is_causal=1), node("Attention", "q k v m", "c")]
    module, params = from_onnx(model(nodes, inputs, "a c", opset=24))
    optimised, _ = vmkit.VMCompiler().optimize(module, "llvm -mcpu=x86-64-v3", params=params)
    assert "nn.contrib_attention" in operators(optimised)
    assert "nn.softmax" not in operators(optimised)


def test_attention_that_cannot_be_is_refused() -> None:
    def refused(attributes: dict[str, Any], shape: list[Any], names: str = "q k v") -> str:
        inputs = {n: (shape, "float32") for n in "qkv"}
        with pytest.raises(ModelError) as caught:
            from_onnx(model([node("Attention", names, "y", **attributes)], inputs, "y", opset=24))
        return str(caught.value)

    assert "inputs of rank 3 need q_num_heads and kv_num_heads" in refused({}, ["b", "s", 8])
    assert "no multiple of 3 heads" in refused({"q_num_heads": 3, "kv_num_heads": 3}, ["b", "s", 8])
    assert "past_key and past_value must be given together" in refused({}, ["b", 2, "s", 8], "q k v _ k")
    assert "qk_matmul_output_mode is 7" in refused({"qk_matmul_output_mode": 7}, ["b", 2, "s", 8])


def test_graphs_change_scores_and_weights() -> None:
    low = [node("Where", "c x l", "y")]
    inner = graph([node("Tanh", "x", "y")], {"x": (["b", 4, "s", "t"], "float32")}, "y")
    outer = graph(low, {"x": (["b", 4, "s", "t"], "float32")}, "y", {"l": np.float32(0)})
    nodes = [
        node("FlexAttention", "q k v", "a", domain="ai.onnx.preview", score_mod=inner, prob_mod=outer, scale=0.5),
        node("FlexAttention", "q k v", "d", domain="ai.onnx.preview"),
    ]
    proto = model(nodes, HEADS | {"c": (["s", "t"], "bool")}, "a d", opset=24)
    proto.opset_import.append(onnx.helper.make_opsetid("ai.onnx.preview", 1))
    compiled = Compiled(proto)
    for b, s, t in SIZES:
        feed = heads(b, s, t) | {"c": np.arange(s * t).reshape(s, t) % 2 == 0}
        key, value = (np.repeat(feed[n], 2, 1) for n in "kv")
        product = feed["q"] @ key.swapaxes(2, 3)

        def softmax(scores: np.ndarray) -> np.ndarray:
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            return powers / powers.sum(-1, keepdims=True)

        first = np.where(feed["c"], softmax(np.tanh(product * 0.5)), 0) @ value
        assert_agrees(compiled(**feed), [first.astype("float32"), softmax(product / 4) @ value], ["a", "d"])
