"""Slices and windows agree with numpy, and positions outside read nothing outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import var


def data(n: int) -> np.ndarray:
    return np.arange(n * 4, dtype="float32").reshape(n, 4)


def test_slices_agree_with_numpy(dim: Any) -> None:
    x, like = var("x", shape=(dim(5), 4)), var("like", shape=(dim(3), 7))
    begin, end, back = (var(n, shape=(2,), dtype="int64") for n in ("begin", "end", "back"))
    windows = np.lib.stride_tricks.sliding_window_view
    table: dict[str, Any] = {
        "first dimension": (relay.strided_slice(x, [1], [3]), lambda x, *_: x[1:3]),
        "past the end, backwards": (
            relay.strided_slice(x, [0, -1], [100, -100], [2, -2]),
            lambda x, *_: x[0:100:2, -1:-100:-2],
        ),
        "by size": (relay.strided_slice(x, [1, 2], [2, -1], slice_mode="size"), lambda x, *_: x[1:3, 2:]),
        "an end left out": (relay.strided_slice(x, [1, 2], [3]), lambda x, *_: x[1:3, 2:]),
        "a begin left out": (relay.strided_slice(x, [1], [3, -1]), lambda x, *_: x[1:3, :-1]),
        "a begin left out, backwards": (
            relay.strided_slice(x, [1], [9, 1], [1, -1]),
            lambda x, *_: x[1:, :1:-1],
        ),
        "axes": (relay.strided_slice(x, [-2], [2**31 - 1], axes=[1]), lambda x, *_: x[:, -2:]),
        "at run time": (relay.strided_slice(x, begin, end), lambda x, k, b, e, s: x[b[0] : e[0], b[1] : e[1]]),
        "strides at run time": (
            relay.strided_slice(x, [-1, 3], [-9, -9], back),
            lambda x, k, b, e, s: x[-1 :: s[0], 3 :: s[1]],
        ),
        "like": (relay.slice_like(x, like, axes=[0]), lambda x, k, *_: x[: len(k)]),
        "windows": (relay.sliding_window(x, 0, [2, 3], [1, 1]), lambda x, *_: windows(x, (2, 3))),
    }
    positions = [np.array([0, -3]), np.array([2, 9]), np.array([-1, -2])]
    sizes = [5] if isinstance(x.type_annotation.shape[0], int) else [5, 3, 8]
    assert_table(
        [x, like, begin, end, back], table, *[(data(n), np.zeros((3, 7), "float32"), *positions) for n in sizes]
    )


def test_positions_of_unknown_length_slice_the_first_dimensions(dim: Any) -> None:
    x = var("x", shape=(dim(5), 4))
    begin, end, back = (var(n, shape=(relay.Any(),), dtype="int32") for n in ("begin", "end", "back"))
    run = compiled(
        [x, begin, end, back],
        relay.strided_slice(x, begin, end, back),
        relay.strided_slice(x, begin, end),
        relay.strided_slice(x, begin, end, slice_mode="size"),
    )
    for b, e, s, by_strides, by_ones, by_sizes in (
        ([1], [4], [2], data(5)[1:4:2], data(5)[1:4], data(5)[1:5]),
        ([3, -1], [0, 1], [-1, -2], data(5)[3:0:-1, -1:1:-2], data(5)[3:0, -1:1], data(5)[3:3, -1:]),
        ([1, 1], [3, 2], [2], data(5)[1:3:2, 1:2], data(5)[1:3, 1:2], data(5)[1:4, 1:3]),
        ([2], [4], [1, 3], data(5)[2:4], data(5)[2:4], data(5)[2:6]),
        ([], [], [], data(5), data(5), data(5)),
    ):
        vectors = [np.asarray(v, "int32") for v in (b, e, s)]
        assert_same(run(data(5), *vectors), (by_strides, by_ones, by_sizes))
    ones = np.ones(1, "int32")
    with pytest.raises(VMError, match="strided_slice: begin has 2 elements, end 1"):
        run(data(5), np.zeros(2, "int32"), ones, ones)
    with pytest.raises(VMError, match="strided_slice: begin has 3 elements for 2 dimensions"):
        run(data(5), *[np.ones(3, "int32")] * 3)


def test_positions_of_which_one_length_is_known_leave_the_other_dimensions() -> None:
    x = var("x", shape=(5, 4))
    begin, end = var("begin", shape=(relay.Any(),), dtype="int32"), var("end", shape=(1,), dtype="int32")
    function = relay.Function([x, begin, end], relay.strided_slice(x, begin, end))
    typed = relay.transform.InferType()(tvm.IRModule({"main": function}))["main"].ret_type
    assert typed.shape[1] == 4 and isinstance(typed.shape[0], relay.Any)
    run = compiled([x, begin, end], relay.strided_slice(x, begin, end))
    assert_same(run(data(5), np.array([1], "int32"), np.array([3], "int32")), data(5)[1:3])


def test_strided_set_writes_the_slice(dim: Any) -> None:
    x, v = var("x", shape=(dim(5), 4)), var("v", shape=(dim(2), 2))
    begin, end, strides = (relay.const(np.array(p, "int32")) for p in ([1, -1], [4, -4], [2, -2]))

    def expected(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        x = x.copy()
        x[1:4:2, -1:-4:-2] = v
        return x

    table = {"set": (relay.strided_set(x, v, begin, end, strides), expected)}
    assert_table([x, v], table, (data(5), -data(1).reshape(2, 2)))


def test_slice_errors_at_run_time() -> None:
    x, like = var("x", shape=(relay.Any(), 4)), var("like", shape=(relay.Any(),))
    strides = var("strides", shape=(1,), dtype="int64")
    with pytest.raises(VMError, match="strided_slice: a stride is 0"):
        compiled([x, strides], relay.strided_slice(x, [0], [3], strides))(data(3), np.array([0]))
    with pytest.raises(VMError, match="slice_like: dimension 0 of shape_like is 4, of data only 3"):
        compiled([x, like], relay.slice_like(x, like, axes=[0]))(data(3), np.zeros(4, "float32"))
    with pytest.raises(VMError, match="sliding_window: dimension 0 is smaller than the window, 4"):
        compiled([x], relay.sliding_window(x, 0, [4, 4], [1, 1]))(data(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.strided_slice(x, [0], [3], [0]), "strides [0] holds 0"),
        (lambda x: relay.strided_slice(x, [0], [3], slice_mode="to"), "slice_mode is 'to'; it is 'end' or 'size'"),
        (
            lambda x: relay.strided_slice(x, [0, 0, 0], [1, 1, 1]),
            "begin, end and axes have 3, 3 and 3 elements for 2 dimensions",
        ),
        (
            lambda x: relay.sliding_window(x, 0, [2], [1]),
            "window_shape [2] and strides [1] must give a positive number for each of the 2 dimensions from axis 0 on",
        ),
    ],
)
def test_wrong_slices_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 4))
    assert type_error([x], build(x)) == message
