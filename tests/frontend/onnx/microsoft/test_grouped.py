"""Attention of grouped heads with a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx.microsoft.models import microsoft, ms
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, node, session
from vmkit.errors import VMKitError

GROUPED = {
    "q": (["b", "s", 64], "float32"), "k": (["b", "s", 32], "float32"), "v": (["b", "s", 32], "float32"),
    "pk": (["b", 2, "p", 16], "float32"), "pv": (["b", 2, "p", 16], "float32"), "last": (["b"], "int32"),
    "total": ([], "int32"),
}  # fmt: skip


def grouped(b: int, s: int, p: int) -> dict[str, np.ndarray]:
    return {
        "q": array(b, s, 64), "k": array(b, s, 32, seed=1), "v": array(b, s, 32, seed=2),
        "pk": array(b, 2, p, 16, seed=3), "pv": array(b, 2, p, 16, seed=4), "last": np.full(b, p + s - 1, "int32"),
        "total": np.array(p + s, "int32"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ("", {}),
        ("co si", {"do_rotary": 1, "local_window_size": 2, "softcap": 3.0}),
        ("co si _ _ sink", {"do_rotary": 1, "rotary_interleaved": 1}),
        ("", {"smooth_softmax": 1, "scale": 0.2}),
    ],
)
def test_attention_with_a_cache(inputs: str, attributes: dict[str, Any]) -> None:
    names = f"q k v pk pv last total {inputs}"
    nodes = [ms("GroupQueryAttention", names, "y ck cv", num_heads=4, kv_num_heads=2, **attributes)]
    constants = {"co": array(20, 8), "si": array(20, 8, seed=1), "sink": array(4, seed=8)}
    used = {n: v for n, v in constants.items() if n in names.split()}
    feeds = [grouped(1, 1, 4), grouped(2, 1, 5), grouped(2, 4, 0), grouped(1, 2, 4)]
    check(microsoft(nodes, GROUPED, "y ck cv", used), *feeds)


@pytest.mark.parametrize("rotates", [0, 1])
def test_rows_behind_the_used_ones_are_padding(rotates: int) -> None:
    names = f"q k v pk pv last total {'co si' if rotates else '_ _'} _ _ _ _ _ _ _ used"
    nodes = [ms("GroupQueryAttention", names, "y ck cv", num_heads=4, kv_num_heads=2, do_rotary=rotates)]
    constants = {"co": array(20, 8), "si": array(20, 8, seed=1)} if rotates else {}
    proto = microsoft(nodes, GROUPED | {"used": (["b"], "int32")}, "y ck cv", constants)
    compiled, peer = Compiled(proto), session(proto)
    for b, s, keys, last, used in ((2, 3, 10, [5, 2], [2, 1]), (1, 1, 6, [5], [1]), (3, 4, 12, [3, 7, 5], [4, 1, 3])):
        feed = grouped(b, s, keys) | {
            "last": np.array(last, "int32"), "used": np.array(used, "int32"), "total": np.array(keys, "int32")
        }  # fmt: skip
        actual, expected = compiled(**feed), peer.run(None, feed)
        # Rows of padding, and what a cache has behind the last key of a sequence, are left open.
        for row, (end, count) in enumerate(zip(last, used, strict=True)):
            mine, its = actual[0][row], expected[0][row]
            np.testing.assert_allclose(mine[:count], its[:count], rtol=1e-4, atol=1e-5)
            assert not mine[count:].any()
            for mine, its in zip(actual[1:], expected[1:], strict=True):
                np.testing.assert_allclose(mine[row, :, : end + 1], its[row, :, : end + 1], rtol=1e-5, atol=1e-6)


def test_caches_filled_to_different_lengths() -> None:
    nodes = [ms("GroupQueryAttention", "q k v pk pv last total", "y ck cv", num_heads=4, kv_num_heads=2)]
    compiled = Compiled(microsoft(nodes, GROUPED, "y ck cv"))
    feed = grouped(2, 1, 5) | {"last": np.array([3, 5], "int32")}
    y, key, _ = compiled(**feed)
    assert key.shape == (2, 2, 6, 16)
    for b, last in enumerate(feed["last"]):
        past = [np.repeat(feed[n][b][:, :last], 2, 0) for n in ("pk", "pv")]
        new = [np.repeat(feed[n][b].reshape(1, 2, 16).swapaxes(0, 1), 2, 0) for n in "kv"]
        keys, values = (np.concatenate([p, n], 1) for p, n in zip(past, new, strict=True))
        powers = np.exp(np.einsum("hd,htd->ht", feed["q"][b].reshape(4, 16), keys) / 4)
        expected = np.einsum("ht,htd->hd", powers / powers.sum(1, keepdims=True), values)
        np.testing.assert_allclose(y[b].reshape(4, 16), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(VMKitError, match="a length of keys is beyond the end of the cache"):
        compiled(**feed | {"last": np.array([3, 6], "int32")})


def test_queries_and_keys_that_are_normalised() -> None:
    attributes = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    tables = {"co": array(20, 8), "si": array(20, 8, seed=1), "qn": array(16, seed=2), "kn": array(16, seed=3)}
    norms = "q k v pk pv last total co si _ _ _ _ _ qn kn"
    proto = microsoft([ms("GroupQueryAttention", norms, "y ck cv", qk_norm_epsilon=1e-5, **attributes)],
                      GROUPED, "y ck cv", tables)  # fmt: skip
    # onnxruntime has it on GPUs alone; its CPU has the same as nodes of their own.
    apart = []
    for name in "qk":
        apart += [
            node("Reshape", f"{name} heads", f"{name}h"),
            node("SimplifiedLayerNormalization", f"{name}h {name}n", f"{name}x", epsilon=1e-5),
            node("Reshape", f"{name}x {name}w", f"{name}z"),
        ]
    widths = {"heads": np.array([0, 0, -1, 16]), "qw": np.array([0, 0, 64]), "kw": np.array([0, 0, 32])}
    apart.append(ms("GroupQueryAttention", "qz kz v pk pv last total co si", "y ck cv", **attributes))
    peer = session(microsoft(apart, GROUPED, "y ck cv", tables | widths))
    compiled = Compiled(proto)
    for feed in (grouped(1, 1, 4), grouped(2, 4, 0)):
        assert_agrees(compiled(**feed), peer.run(None, feed), ["y", "ck", "cv"])
