"""Quantised pools and concatenation requantise only where they have to."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.relay.op.qnn.references import integers, requantized, saturated
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.relay import const, var
from vmkit.relay.qnn import op as qnn


def numbers(*values: float) -> list[Any]:
    return [const(v, d) for v, d in zip(values, ("float32", "int32") * 2, strict=True)]


def test_avg_pool2d_is_the_mean_of_requantized_integers(dim: Any) -> None:
    x = var("x", shape=(dim(2), dim(6), dim(8), 3), dtype="uint8")
    data = integers("uint8", 2, 6, 8, 3)
    rows = [(0.5, 10, 0.5, 10), (0.5, 10, 0.25, 200)]
    calls = [qnn.avg_pool2d(x, *numbers(*row), (2, 2), (2, 2), (0, 0), (1, 1)) for row in rows]
    padded = qnn.avg_pool2d(x, *numbers(*rows[0]), (2, 2), (2, 2), (1, 1), (1, 1), count_include_pad=False)
    expected = []
    for row in rows:
        q = requantized(data, *row, "int32").astype("int64")
        sums = q.reshape(2, 3, 2, 4, 2, 3).sum(axis=(2, 4))
        expected.append(saturated(np.trunc(sums / 4), "uint8"))
    results = compiled([x], *calls, padded)(data)
    assert_same(results[:2], tuple(expected))
    assert_same(results[2][:, 0, 0], data[:, 0, 0])
    assert_same(results[2][:, 1, 0], (data[:, 1:3, 0].astype(int).sum(1) // 2).astype("uint8"))


def test_concatenate_brings_all_to_one_quantization(dim: Any) -> None:
    params = [var(name, shape=(dim(k), 3), dtype="int8") for k, name in enumerate("xyz", 1)]
    data = [integers("int8", k, 3) for k in (1, 2, 3)]
    rows = [(0.5, 1), (0.25, 1), (0.5, -4)]
    scales, zeros = [const(s) for s, _ in rows], [const(z) for _, z in rows]
    call = qnn.concatenate(params, scales, zeros, const(0.5), const(1), axis=0)
    parts = [requantized(d, s, z, 0.5, 1, "int8") for d, (s, z) in zip(data, rows, strict=True)]
    assert_same(parts[0], data[0])
    # The tensors may be the sections of another one, and the parameters fields of any tuple.
    whole = var("whole", shape=(4, 3), dtype="int8")
    halves = relay.split(whole, 2)
    split = qnn.concatenate(halves, scales[:2], zeros[:2], const(0.5), const(1), axis=1)
    fours = integers("int8", 4, 3)
    joined = np.concatenate([fours[:2], requantized(fours[2:], 0.25, 1, 0.5, 1, "int8")], axis=1)
    assert_same(compiled([*params, whole], call, split)(*data, fours), (np.concatenate(parts), joined))


def test_mistakes_are_named() -> None:
    x, w = var("x", shape=(2, 3), dtype="int8"), var("w", shape=(1, 4, 4, 1), dtype="int16")
    one, zero = const(1.0), const(0)
    few = qnn.concatenate([x, x], [one], [zero, zero], one, zero, axis=0)
    assert type_error([x], few).startswith("input_scales must be a tuple of 2, one for each tensor, not")
    wrong = qnn.concatenate([x, x], [one, one], [zero, one], one, zero, axis=0)
    assert type_error([x], wrong) == "field 1 of the input_zero_point must be int32, not float32"
    pool = qnn.avg_pool2d(w, one, zero, one, zero, (2, 2), (1, 1), (0, 0), (1, 1))
    assert type_error([w], pool) == "data must be one of int8, uint8, not int16"
