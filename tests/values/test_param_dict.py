"""Weights as bytes: what 0.14 wrote is read, and written to the same bytes."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import InputError, ModelError

WEIGHTS: dict[str, Any] = {
    "scalar": np.array(2.5, "float64"),
    "empty": np.zeros((0, 3), "int8"),
    "mask": np.array([True, False, True]),
    "ünï": np.arange(6, dtype="uint16").reshape(2, 3),
    "half": np.array([1.5, -2], ml_dtypes.bfloat16),
}


def test_weights_come_back_in_order_with_their_dtypes_and_shapes() -> None:
    loaded = relay.load_param_dict(relay.save_param_dict(WEIGHTS))
    assert list(loaded) == list(WEIGHTS)
    for name, array in WEIGHTS.items():
        assert (str(loaded[name].dtype), tuple(loaded[name].shape)) == (str(array.dtype), array.shape)
        np.testing.assert_array_equal(loaded[name].numpy(), array)


def test_bytes_are_those_of_0_14() -> None:
    magic, tensor_magic = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
    expected = (
        struct.pack("<QQ", magic, 0)
        + struct.pack("<QQ1sQ1s", 2, 1, b"a", 1, b"b")
        + struct.pack("<Q", 2)
        + struct.pack("<QQiiiBBHqq", tensor_magic, 0, 1, 0, 1, 1, 1, 1, 2, 2)
        + b"\x01\x00"
        + struct.pack("<QQiiiBBHq", tensor_magic, 0, 1, 0, 0, 4, 16, 1, 2)
        + b"\x80\x3f"
    )
    params = {"a": np.array([True, False]), "b": np.array(1, ml_dtypes.bfloat16)}
    assert relay.save_param_dict(params) == expected
    assert {name: str(t.dtype) for name, t in relay.load_param_dict(expected).items()} == {"a": "bool", "b": "bfloat16"}


def test_todays_tvm_reads_and_writes_the_same_file() -> None:
    params = {name: tvm.runtime.tensor(a) for name, a in WEIGHTS.items() if name != "half"}
    assert list(relay.load_param_dict(tvm.runtime.save_param_dict(params))) == list(params)
    by_tvm = tvm.runtime.load_param_dict(bytes(relay.save_param_dict(params)))
    np.testing.assert_array_equal(by_tvm["ünï"].numpy(), WEIGHTS["ünï"])


def test_every_cut_is_refused() -> None:
    blob = bytes(relay.save_param_dict({"a": np.ones(2, "float32"), "bc": np.zeros((), "int64")}))
    for size in range(len(blob)):
        with pytest.raises(ModelError):
            relay.load_param_dict(blob[:size])


@pytest.mark.parametrize(
    ("at", "replacement", "said"),
    [
        (0, b"\0", "a file of weights begins with 0xf7e58d4f05049cb7, got 0xf7e58d4f05049c00"),
        (16, struct.pack("<Q", 1 << 60), "the file of weights ends in name"),
        (24, struct.pack("<Q", 1 << 62), "the file of weights ends in name 0 of 1"),
        (32, b"\xff", "name 0 of the weights is no text"),
        (33, b"\2", "the file of weights has 1 names for 2 tensors"),
        (41, b"\0", "weight 'a': a stored tensor begins with"),
        (73, struct.pack("<q", 1 << 40), "weight 'a': a stored tensor of shape (1099511627776,) and float32"),
    ],
)
def test_damaged_weights_are_refused(at: int, replacement: bytes, said: str) -> None:
    blob = bytearray(relay.save_param_dict({"a": np.ones(2, "float32")}))
    blob[at : at + len(replacement)] = replacement
    with pytest.raises(ModelError) as caught:
        relay.load_param_dict(blob)
    assert said in str(caught.value)


def test_bytes_after_the_last_weight_are_refused() -> None:
    with pytest.raises(ModelError, match="3 bytes follow the last of the weights"):
        relay.load_param_dict(relay.save_param_dict({"a": 1}) + b"abc")


def test_what_is_no_weight_is_refused() -> None:
    with pytest.raises(InputError, match="a: a str"):
        relay.save_param_dict({"a": "text"})
    with pytest.raises(ModelError, match="weights are read from bytes, not str"):
        relay.load_param_dict("path")  # type: ignore[arg-type]
