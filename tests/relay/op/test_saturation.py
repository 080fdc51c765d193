"""Numbers are quantised to the nearest integer within a range, whatever they are."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx

import vmkit
from vmkit import relay
from vmkit.relay.op.registry import build
from vmkit.relay.op.saturation import nearest

# Halves, ends of ranges, where float32 loses its fractions, where integers of 32 bits end, and what is no number.
EDGES = [0.5, 1.5, 2.5, 126.5, 127.5, 128.5, 254.5, 255.5, 3e3, 32767.5, 65535.5, 4e6, 8.4e6, 1.26e7, 1.3e7, 2.6e7]
LARGE = [2.1e9, 2.2e9, 4.2e9, 4.4e9, 1e20, 3e38, np.inf]
NUMBERS = np.array([0, *EDGES, *LARGE, *(-x for x in EDGES), *(-x for x in LARGE), np.nan], "float32")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_numbers_are_limited_to_the_range_of_a_type(dtype: str) -> None:
    info, x = np.iinfo(dtype), relay.var("x", shape=NUMBERS.shape)
    zeros = [info.min, info.max, 7]
    calls = [build("contrib_quantized", x, relay.const(np.array(zero, dtype)), dtype=dtype) for zero in zeros]
    results = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.Tuple(calls)))).run(NUMBERS)
    whole = np.rint(np.nan_to_num(NUMBERS.astype("float64"), nan=np.inf))  # what is no number is the largest
    for zero, got in zip(zeros, results, strict=True):
        np.testing.assert_array_equal(got.numpy(), np.clip(whole + zero, info.min, info.max).astype(dtype))


def test_an_unsigned_integer_is_limited_above_where_it_is_made_narrow() -> None:
    found: list[str] = []
    value = nearest(tirx.Var("x", "float32"), tirx.const(3, "uint8"), 0, 255)
    tvm_ffi.structural_walk(value, (tirx.Min, lambda node: found.append(str(node.ty.dtype))))
    assert found == ["uint32"]
