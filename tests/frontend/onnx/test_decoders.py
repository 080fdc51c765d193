"""Loops as decoders have them: texts written until they end, and the best of several kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from tests.frontend.onnx.feeds import COUNT, ITERATION, START, count
from tests.frontend.onnx.programs import (
    Compiled,
    array,
    assert_agrees,
    check,
    graph,
    model,
    node,
    session,
)


def greedy_decoder(vocabulary: int) -> onnx.ModelProto:
    """A decoder that takes the most likely token until one says that the text ends, and keeps all of them."""
    body = graph(
        [
            node("Gather", "table token", "e", axis=0),
            node("MatMul", "e mix", "m"),
            node("Add", "state m", "sum"),
            node("Tanh", "sum", "next_state"),
            node("MatMul", "next_state out", "logits"),
            node("ArgMax", "logits", "best", axis=-1, keepdims=0),
            node("Reshape", "best one_element", "vector"),
            node("Concat", "tokens vector", "longer", axis=0),
            node("Equal", "best end", "ends"),
            node("Not", "ends", "further"),
            node("ReduceLogSumExp", "logits", "normal", keepdims=0),
            node("ReduceMax", "logits", "top", keepdims=0),
            node("Sub", "top normal", "score"),
        ],
        {**ITERATION, "token": ([], "int64"), "state": ([8], "float32"), "tokens": ([None], "int64")},
        "further best next_state longer score",
    )
    constants = {
        "table": array(vocabulary, 8, seed=1), "mix": array(8, 8, seed=2), "out": array(8, vocabulary, seed=3),
        "end": np.int64(9), "one_element": np.array([1]),
    }  # fmt: skip
    nodes = [
        node("Reshape", "begin one_element", "first"),
        node("Loop", "n c begin start first", "last state tokens scores", body=body),
    ]
    inputs = {**COUNT, **START, "begin": ([], "int64"), "start": ([8], "float32")}
    return model(nodes, inputs, "tokens scores state", constants)


def test_a_greedy_decoder_writes_texts_of_differing_lengths() -> None:
    feeds = [
        {**count(40), "c": np.array(True), "begin": np.array(b), "start": array(8, seed=s)}
        for b, s in [(0, 0), (0, 1), (0, 2), (4, 4), (2, 4)]
    ]
    proto = greedy_decoder(12)
    compiled = check(proto, *feeds)
    assert len({compiled(**f)[0].shape for f in feeds}) == len(feeds)


def beam_search(beams: int, vocabulary: int) -> onnx.ModelProto:
    """The best continuations of the best texts, of which there are always as many; texts grow along axis 1."""
    body = graph(
        [
            node("Gather", "texts last_place", "last", axis=1),
            node("Gather", "table last", "states", axis=0),
            node("MatMul", "states out", "logits"),
            node("LogSoftmax", "logits", "log", axis=-1),
            node("Unsqueeze", "scores axis1", "column"),
            node("Add", "log column", "sums"),
            node("Reshape", "sums flat", "all"),
            node("TopK", "all beams", "best places", axis=0),
            node("Div", "places width", "from"),
            node("Mod", "places width", "token"),
            node("Gather", "texts from", "kept", axis=0),
            node("Unsqueeze", "token axis1", "tokens"),
            node("Concat", "kept tokens", "longer", axis=1),
            node("ReduceMax", "best", "top", keepdims=0),
            node("Greater", "top floor", "further"),
        ],
        {**ITERATION, "texts": ([beams, None], "int64"), "scores": ([beams], "float32")},
        "further longer best from",
    )
    constants = {
        "table": array(vocabulary, 8, seed=1), "out": array(8, vocabulary, seed=3), "last_place": np.int64(-1),
        "axis1": np.array([1]), "flat": np.array([-1]), "beams": np.array([beams]), "width": np.int64(vocabulary),
    }  # fmt: skip
    inputs = {
        **COUNT,
        "texts0": ([beams, "length"], "int64"),
        "scores0": ([beams], "float32"),
        "floor": ([], "float32"),
    }
    return model(
        [node("Loop", "n _ texts0 scores0", "texts_ scores_ parents", body=body)],
        inputs,
        "texts_ scores_ parents",
        constants,
    )


def test_a_beam_search_agrees(tmp_path: Path) -> None:
    proto = beam_search(3, 11)
    feeds = [
        {**count(n), "texts0": np.ones((3, k), "int64") * [[1], [2], [3]], "scores0": array(3), "floor": np.float32(f)}
        for n, k, f in [(6, 1, -100), (0, 2, -100), (30, 3, -4)]
    ]
    compiled, peer = Compiled(proto), session(proto)
    expected = [peer.run(None, {k: np.asarray(v) for k, v in feed.items()}) for feed in feeds]
    for feed, wanted in zip(feeds, expected, strict=True):
        assert_agrees(compiled(**feed), wanted, ["texts", "scores", "parents"])
    for found, wanted in zip(compiled.in_fresh_process(feeds, tmp_path), expected, strict=True):
        assert_agrees(found, wanted, ["texts", "scores", "parents"])
