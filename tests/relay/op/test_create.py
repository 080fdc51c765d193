"""Tensors that are made, reshaped and repeated agree with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import const, var


def data(n: int) -> np.ndarray:
    return np.arange(n * 4, dtype="float32").reshape(n, 4)


def test_filled_tensors_and_ranges(dim: Any) -> None:
    x, i = var("x", shape=(dim(3), 4)), var("i", shape=(dim(3), 4), dtype="int32")
    shape, value = var("shape", shape=(2,), dtype="int64"), var("value", "float32")
    start, stop, step = (var(n, "int32") for n in ("start", "stop", "step"))
    table: dict[str, Any] = {
        "full": (relay.full(value, (2, 3)), lambda *v: np.full((2, 3), v[3], "float32")),
        "full, shape read": (relay.full(value, shape, "int64"), lambda *v: np.full(v[2], int(v[3]), "int64")),
        "zeros": (relay.zeros((2,), "bool"), lambda *v: np.zeros(2, bool)),
        "ones, shape read": (relay.ones(shape, "int8"), lambda *v: np.ones(v[2], "int8")),
        "zeros_like": (relay.zeros_like(x), lambda x, *v: np.zeros_like(x)),
        "ones_like": (relay.ones_like(i), lambda x, i, *v: np.ones_like(i)),
        "full_like": (relay.full_like(i, value), lambda x, i, *v: np.full_like(i, 3)),
        "arange, all read": (relay.arange(start, stop, step, "int32"), lambda *v: np.arange(*v[4:], dtype="int32")),
        "arange of constants": (
            relay.arange(const(1.0), const(2.0), const(0.25)),
            lambda *v: np.arange(1, 2, 0.25, "float32"),
        ),
        "arange of a float": (relay.arange(value), lambda *v: np.arange(3.5, dtype="float32")),
        "one_hot": (
            relay.one_hot(i, const(1.0), const(0.0), 3, -1, "float32"),
            lambda x, i, *v: (i[..., None] == np.arange(3)).astype("float32"),
        ),
        "one_hot of values of another data type": (
            relay.one_hot(i, const(2), const(-1), 3, -1, "float32"),
            lambda x, i, *v: np.where(i[..., None] == np.arange(3), 2, -1).astype("float32"),
        ),
        "one_hot, depth read": (
            relay.one_hot(i, const(1), const(7), stop, 1, "int32"),
            lambda x, i, *v: np.where(i[:, None] == np.arange(v[3])[:, None], 1, 7).astype("int32"),
        ),
        "size": (relay.ndarray_size(x, "int64"), lambda x, *v: np.int64(x.size)),
    }
    scalars = np.float32(3.5), np.int32(9), np.int32(1), np.int32(-3)
    arrays = data(3), (data(3) % 5).astype("int32"), np.array([3, 0]), *scalars
    assert_table([x, i, shape, value, start, stop, step], table, arrays)


def test_rearranged_tensors(dim: Any) -> None:
    x, y = var("x", shape=(dim(2), 1, 4)), var("y", shape=(dim(2), 4))
    axis, gone = var("axis", "int32"), var("gone", shape=(1,), dtype="int64")
    reps, shape = var("reps", shape=(3,), dtype="int32"), var("shape", shape=(3,), dtype="int64")
    lengths = var("lengths", shape=(dim(2),), dtype="int64")

    def reversed_rows(x: Any, y: np.ndarray, *v: Any) -> np.ndarray:
        rows = [np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(y, v[3], strict=True)]
        return np.array(rows, "float32").reshape(y.shape)

    build = relay.op.build
    table: dict[str, Any] = {
        "expand_dims": (relay.expand_dims(x, 1, 2), lambda x, *v: x[:, None, None]),
        "expand_dims at the end": (relay.expand_dims(x, -1), lambda x, *v: x[..., None]),
        "expand_dims, axis read": (relay.expand_dims(x, axis), lambda x, *v: x[:, :, None]),
        "squeeze": (relay.squeeze(x, [1]), lambda x, *v: x[:, 0]),
        "squeeze, axis read": (relay.squeeze(x, gone), lambda x, *v: x[:, 0]),
        "batch_flatten": (relay.nn.batch_flatten(x), lambda x, *v: x[:, 0]),
        "reshape_like": (relay.reshape_like(x, y), lambda x, *v: x[:, 0]),
        "part of reshape_like": (
            relay.reshape_like(x, y, lhs_begin=0, lhs_end=2, rhs_begin=0, rhs_end=1),
            lambda x, *v: x[:, 0],
        ),
        "reverse_reshape": (build("contrib_reverse_reshape", x, [0, 2, -1]), lambda x, *v: x.reshape(-1, 2, 2)),
        "transpose": (relay.transpose(x), lambda x, *v: x.transpose()),
        "transpose axes": (relay.transpose(x, [-1, 0, 1]), lambda x, *v: x.transpose(2, 0, 1)),
        "reverse": (relay.reverse(x, -1), lambda x, *v: x[..., ::-1]),
        "reverse_sequence": (relay.reverse_sequence(y, lengths), reversed_rows),
        "tile": (relay.tile(y, (2, 1, 3)), lambda x, y, *v: np.tile(y, (2, 1, 3))),
        "tile of ones": (relay.tile(x, (2, 3, 1)), lambda x, *v: np.tile(x, (2, 3, 1))),
        "tile, more reps": (relay.tile(y, (3,)), lambda x, y, *v: np.tile(y, 3)),
        "tile of nothing": (relay.tile(y, (0, 2)), lambda x, y, *v: np.tile(y, (0, 2))),
        "tile, reps read": (relay.tile(y, reps), lambda x, y, *v: np.tile(y, (2, 1, 2))),
        "repeat": (relay.repeat(y, 2, 1), lambda x, y, *v: np.repeat(y, 2, 1)),
        "repeat flat": (relay.repeat(y, 3), lambda x, y, *v: np.repeat(y, 3)),
        "layout": (
            relay.layout_transform(y, "NC", "CN2n"),
            lambda x, y, *v: np.pad(y, ((0, len(y) % 2), (0, 0))).reshape(-1, 2, 4).transpose(2, 0, 1),
        ),
        "broadcast_to": (relay.broadcast_to(x, shape), lambda x, *v: np.broadcast_to(x, v[5])),
        "broadcast_to_like": (
            build("broadcast_to_like", x, relay.broadcast_to(x, shape)),
            lambda x, *v: np.broadcast_to(x, v[5]),
        ),
        "collapse_sum_like": (
            build("collapse_sum_like", relay.broadcast_to(x, shape), x),
            lambda x, *v: x * np.float32(v[5][1]),
        ),
        "collapse_sum_to": (relay.op.build("collapse_sum_to", y, (4,)), lambda x, y, *v: y.sum(0)),
    }
    arrays = []
    for n in [2] if isinstance(x.type_annotation.shape[0], int) else [2, 3, 0]:
        vectors = np.array([2, 1, 2], "int32"), np.arange(n) % 3 + 2, np.array([n, 3, 4])
        arrays.append((data(n)[:, None], data(n), np.int32(2), np.array([-2]), *vectors))
    params = [x, y, axis, gone, reps, lengths, shape]
    assert_table(params, table, *arrays)


def test_einsum_agrees_with_numpy(dim: Any) -> None:
    a, b, c = var("a", shape=(dim(2), 3)), var("b", shape=(3, dim(4))), var("c", shape=(dim(2), dim(3), dim(3)))
    equations = {"ij,jk->ik": (a, b), "ij,jk": (a, b), "bij,bj->bi": (c, a), "...ii->...i": (c,), "bii": (c,)}
    places = [a, b, c]

    def reference(equation: str, at: list[int]) -> Any:
        return lambda *values: np.einsum(equation, *[values[k] for k in at])

    table = {
        equation: (relay.einsum(operands, equation), reference(equation, [places.index(o) for o in operands]))
        for equation, operands in equations.items()
    }
    assert_table(places, table, [np.random.default_rng(0).random(s, "float32") for s in ((2, 3), (3, 4), (2, 3, 3))])


def test_errors_at_run_time() -> None:
    x, shape, step = var("x", shape=(relay.Any(), 4)), var("shape", shape=(2,), dtype="int64"), var("step", "int32")
    with pytest.raises(VMError, match=r"dyn\.zeros: the shape holds a negative size"):
        compiled([shape], relay.zeros(shape, "int8"))(np.array([3, -1]))
    with pytest.raises(VMError, match="arange: step is 0"):
        compiled([step], relay.arange(const(0), const(3), step, "int32"))(np.int32(0))
    with pytest.raises(VMError, match="squeeze: dimension 0 is 2; only a dimension of 1 can be removed"):
        compiled([x], relay.squeeze(x, [0]))(data(2))
    with pytest.raises(VMError, match=r"dyn\.broadcast_to: dimension 0 is 3; it cannot be broadcast to 4"):
        compiled([x, shape], relay.broadcast_to(x, shape))(data(3), np.array([4, 4]))


def test_stale_arange_is_not_possible() -> None:
    start = var("start", "int32")
    assert relay.arange(start, const(3), dtype="int32").attrs.start is None
    assert_same(compiled([start], relay.arange(start, const(3), dtype="int32"))(np.int32(1)), np.array([1, 2], "int32"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: relay.expand_dims(x, 4), "axis is 4; for an input of 2 dimensions it is -3 to 2"),
        (lambda x: relay.squeeze(x, [1]), "dimension 1 is 4; only a dimension of 1 can be removed"),
        (lambda x: relay.transpose(x, [0]), "axes [0] must name each of the 2 dimensions once"),
        (lambda x: relay.tile(x, [-1]), "reps [-1] has a negative number"),
        (lambda x: relay.broadcast_to(x, (3, 4)), "(2, 4) cannot be broadcast to (3, 4)"),
        (lambda x: relay.full(x, (2,)), "fill_value must be one number, not Tensor[(2, 4), float32]"),
        (lambda x: relay.layout_transform(x, "NC", "NH"), "'NC' cannot become 'NH': their axes differ"),
        (lambda x: relay.einsum([x], "ij,jk"), "the equation 'ij,jk' has 2 operands, the tuple 1"),
        (lambda x: relay.arange(const(0), const(3), const(0)), "step is 0"),
    ],
)
def test_wrong_attributes_say_what_is_wrong(build: Any, message: str) -> None:
    x = var("x", shape=(2, 4))
    assert type_error([x], build(x)) == message


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((4, 3, 2), (4, 3, 2)),
        ((-1, 0, 2), (4, 3, 2)),
        ((-3, 4, 1), (6, 4, 1)),
        ((0, -3, 1), (2, 12, 1)),
        ((-3, 0, -1), (6, 4, 1)),
        ((-3, -1, 2), (6, 2, 2)),
    ],
)
def test_a_shape_read_at_run_time_copies_infers_and_joins(dim: Any, wanted: Any, expected: Any) -> None:
    x, shape = var("x", shape=[dim(n) for n in (2, 3, 4)]), var("shape", shape=(3,), dtype="int64")
    result = compiled([x, shape], relay.reshape(x, shape))(np.zeros((2, 3, 4), "float32"), np.array(wanted))
    assert result.shape == expected


def test_a_shape_read_at_run_time_that_means_none_is_an_error() -> None:
    x, shape = var("x", shape=(relay.Any(), 3)), var("shape", shape=(2,), dtype="int64")
    run = compiled([x, shape], relay.reshape(x, shape))
    for wanted in ((-2, 3), (-4, -6), (3, -3)):
        with pytest.raises(VMError, match="newshape holds sizes, 0, -1 or -3"):
            run(np.zeros((0, 3), "float32"), np.array(wanted))
    for wanted in ((4, 4), (-1, 4), (-1, -1)):
        with pytest.raises(VMError, match=r"the new shape holds .* elements, the input 6"):
            run(np.zeros((2, 3), "float32"), np.array(wanted))
