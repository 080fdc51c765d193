"""Padding agrees with numpy, by widths known at compile time and by widths read at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.programs import assert_same, assert_table, compiled, type_error
from vmkit import relay
from vmkit.errors import VMError
from vmkit.relay import nn, var

Any_ = relay.Any
WIDTHS = [[0, 0], [1, 2], [2, 0]]


def numbers(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)


def test_padding_agrees_with_numpy(dim: Any) -> None:
    x, value = var("x", shape=(dim(2), dim(3), dim(4))), var("value", shape=())
    table = {
        "constant": (nn.pad(x, WIDTHS, 1.5), lambda x, v: np.pad(x, WIDTHS, constant_values=1.5)),
        "by a value of the program": (nn.pad(x, WIDTHS, value), lambda x, v: np.pad(x, WIDTHS, constant_values=v)),
        "edge": (nn.pad(x, WIDTHS, pad_mode="edge"), lambda x, v: np.pad(x, WIDTHS, mode="edge")),
        "reflect": (nn.pad(x, WIDTHS, pad_mode="reflect"), lambda x, v: np.pad(x, WIDTHS, mode="reflect")),
        "wrap": (nn.pad(x, WIDTHS, pad_mode="wrap"), lambda x, v: np.pad(x, WIDTHS, mode="wrap")),
        "wrap, wider than the data": (
            nn.pad(x, [[5, 0], [0, 7], [9, 9]], pad_mode="wrap"),
            lambda x, v: np.pad(x, [[5, 0], [0, 7], [9, 9]], mode="wrap"),
        ),
        "wider than the data": (
            nn.pad(x, [[5, 0], [0, 7], [9, 9]], pad_mode="reflect"),
            lambda x, v: np.pad(x, [[5, 0], [0, 7], [9, 9]], mode="reflect"),
        ),
        "mirror symmetric": (nn.mirror_pad(x, WIDTHS), lambda x, v: np.pad(x, WIDTHS, mode="symmetric")),
        "mirror reflect": (nn.mirror_pad(x, WIDTHS, "REFLECT"), lambda x, v: np.pad(x, WIDTHS, mode="reflect")),
        "taken away": (
            nn.pad(x, [[-1, 1], [0, -1], [0, 0]]),
            lambda x, v: np.pad(x[1:, :-1], [[0, 1], [0, 0], [0, 0]]),
        ),
    }
    sizes = [(2, 3, 4)] if dim(1) == 1 else [(2, 3, 4), (3, 5, 3)]
    assert_table([x, value], table, *[(numbers(*s), np.float32(7)) for s in sizes])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_widths_may_be_read_at_run_time(mode: str) -> None:
    x, widths = var("x", shape=(Any_(), 3, Any_())), var("widths", shape=(3, 2), dtype="int64")
    run = compiled([x, widths], nn.pad(x, widths, pad_mode=mode))
    data = numbers(2, 3, 4)
    for given in (WIDTHS, [[0, 0]] * 3, [[1, 1], [0, 2], [3, 3]]):
        assert_same(run(data, np.array(given)), np.pad(data, given, mode=mode))
    assert_same(run(data, np.array([[0, -1], [-1, 0], [0, 0]])), data[:1, 1:])


def test_nothing_cannot_be_padded_with_its_own_elements() -> None:
    x, widths = var("x", shape=(Any_(), Any_())), var("widths", shape=(2, 2), dtype="int64")
    run = compiled([x, widths], nn.pad(x, widths, pad_mode="edge"))
    assert run(numbers(0, 2), np.array([[0, 0], [1, 1]])).shape == (0, 4)
    with pytest.raises(VMError, match=r"dyn.nn.pad: an axis of no elements cannot be padded with its own \(edge\)"):
        run(numbers(0, 2), np.array([[1, 0], [1, 1]]))


def test_more_cannot_be_taken_away_than_there_is() -> None:
    x = var("x", shape=(Any_(),))
    reason = "nn.pad: pad_width -2 and -1 take away more elements than axis 0 has"
    with pytest.raises(VMError, match=reason):
        compiled([x], nn.pad(x, [[-2, -1]]))(numbers(2))


def test_type_errors_say_what_does_not_fit() -> None:
    x, v = var("x", shape=(2, 3)), var("v", shape=(3,))
    assert type_error([x], nn.pad(x, [[1, 1]])) == (
        "pad_width must hold one (before, after) for each of 2 dimensions, not [[1, 1]]"
    )
    assert type_error([x], nn.pad(x, [[-2, -1], [0, 0]])) == (
        "pad_width -2 and -1 take away more than the 2 elements of axis 0"
    )
    assert type_error([x], nn.pad(x, [[0, 0], [0, 0]], pad_mode="mirror")) == (
        "pad_mode must be one of constant, edge, reflect, wrap, not 'mirror'"
    )
    assert type_error([x, v], nn.pad(x, [[0, 0], [0, 0]], v)) == (
        "pad_value must be a scalar, or a vector of one element, not Tensor[(3), float32]"
    )
    assert type_error([x, v], nn.pad(x, v)) == (
        "pad_width must be an integer tensor of shape (2, 2), not Tensor[(3), float32]"
    )


def test_the_value_may_be_a_vector_of_one_element() -> None:
    x, widths, v = var("x", shape=(2,)), var("widths", shape=(1, 2), dtype="int64"), var("v", shape=(1,))
    constant = relay.const(np.array([3.0], "float32"))
    run = compiled([x, widths, v], *[nn.pad(x, w, each) for w in ([[1, 2]], widths) for each in (constant, v)])
    three, four = (np.array([n, 1, 1, n, n], "float32") for n in (3, 4))
    arrays = np.ones(2, "float32"), np.array([[1, 2]]), np.array([4], "float32")
    assert_same(run(*arrays), (three, four, three, four))


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    "widths",
    [
        [[0, 0], [0, 0], [3, 3]],
        [[0, 0], [2, 1], [0, 5]],
        [[0, 0], [2, 1], [4, 0]],
        [[1, 0], [0, 0], [0, 0]],
        [[0, 0], [0, 0], [23, 23]],
        [[0, 0], [0, -2], [-1, 5]],
        [[0, 0], [0, 0], [-3, -4]],
    ],
)
@pytest.mark.parametrize("batch", [2, Any_()])
def test_lines_are_mirrored_at_their_ends_alone(batch: Any, widths: list[list[int]], mode: str) -> None:
    for dtype in ("float32", "int8", "float16"):
        x = var("x", shape=(batch, 5, 24), dtype=dtype)
        given = numbers(2, 5, 24).astype(dtype)
        padded = np.pad(given, [[max(before, 0), max(after, 0)] for before, after in widths], mode=mode)
        taken = tuple(slice(-min(b, 0), size + min(a, 0)) for (b, a), size in zip(widths, padded.shape, strict=True))
        assert_same(compiled([x], nn.pad(x, widths, pad_mode=mode))(given), padded[taken])
