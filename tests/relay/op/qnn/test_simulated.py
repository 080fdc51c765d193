"""Simulated quantisation gives as floats what the true one gives, to a data type chosen when run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.op.qnn.references import dequantized, quantized, round_away
from tests.relay.programs import assert_same, compiled, type_error
from vmkit import relay
from vmkit.errors import TypeCheckError, VMError
from vmkit.relay import const, var
from vmkit.relay.op import build
from vmkit.relay.qnn import op as qnn

_CODES = {"int8": 1, "uint8": 2, "int32": 3}


def test_the_data_type_and_the_number_of_channels_may_change_between_runs() -> None:
    x = var("x", shape=(relay.Any(), 5))
    code, scale, zero = (
        var("code", "int32"),
        var("s", shape=(relay.Any(),)),
        var("z", shape=(relay.Any(),), dtype="int32"),
    )
    run = compiled(
        [x, code, scale, zero],
        qnn.simulated_quantize(x, scale, zero, axis=0, out_dtype=code),
        qnn.simulated_dequantize(x, scale, zero, axis=0, in_dtype=code),
    )
    data = np.random.default_rng(0).normal(0, 200, (3, 5)).round(1).astype("float32")
    vector = np.float32([0.5, 1.0, 0.25]), np.int32([1, 2, 3])
    for scales, zeros in (vector, (np.float32([0.5]), np.int32([7])), (vector[0], np.int32([0]))):
        for dtype, number in _CODES.items():
            s, z = (v if v.size > 1 else v[0] for v in (scales, zeros))
            column = [np.reshape(v, (-1, 1)) if np.ndim(v) else v for v in (s, z)]
            expected = quantized(data, s, z, dtype, 0).astype("float32"), (data - column[1]) * column[0]
            assert_same(run(data, np.int32(number), scales, zeros), (expected[0], expected[1].astype("float32")))
        assert_same(run(data, np.int32(0), scales, zeros), (data, data))
    with pytest.raises(VMError, match="scale has 2 elements, axis 0 of the data 3"):
        run(data, np.int32(1), np.float32([1, 2]), vector[1])


def test_a_data_type_may_be_given_by_name(dim: Any) -> None:
    x = var("x", shape=(dim(2), 3))
    data = np.float32([[0.25, -0.75, 300], [-300, 7.5, 0.1]])
    both = qnn.simulated_dequantize(
        qnn.simulated_quantize(x, const(0.5), const(3), out_dtype="uint8"), const(0.5), const(3), in_dtype="uint8"
    )
    same = qnn.simulated_quantize(x, const(0.5), const(3), out_dtype="disable")
    assert_same(compiled([x], both, same)(data), (dequantized(quantized(data, 0.5, 3, "uint8"), 0.5, 3), data))
    with pytest.raises(TypeCheckError, match="'int9' is none of the data types to simulate: disable, int8"):
        qnn.simulated_quantize(x, const(0.5), const(3), out_dtype="int9")


def test_annotations_limit_and_round(dim: Any) -> None:
    x, scale, low, high = var("x", shape=(dim(4),)), var("s"), var("low"), var("high")
    name = "relay.op.annotation.simulated_quantize"
    run = compiled([x, scale, low, high], build(name, x, scale, low, high, kind=1), build(name, x, scale, low, high))
    data = np.float32([0.25, -0.75, 100, -100])
    expected = (round_away(np.clip(data / 0.5, -127, 127)) * 0.5).astype("float32")
    assert_same(run(data, np.float32(0.5), np.float32(-127), np.float32(127)), (expected, data))
    x = var("x", shape=(4,))
    mistaken = build(name, x, const(1.0), const(1.0), const(1.0), kind=1, rounding="floor")
    assert type_error([x], mistaken) == "only signed simulation with rounding 'round' is defined"


def test_mistakes_are_named() -> None:
    x, q = var("x", shape=(2, 3)), var("q", shape=(2, 3), dtype="int8")
    assert type_error([q], qnn.simulated_quantize(q, const(1.0), const(0))) == "data must be floats, not int8"
    vector = const([1.0, 2.0])
    assert "must be one number or a vector of 3" in type_error([x], qnn.simulated_quantize(x, vector, const(0)))
    assert "must be one int32" in type_error([x], qnn.simulated_quantize(x, const(1.0), const(0), out_dtype=const(1.0)))
