"""SimplifyExpr: each rule where it holds, and not where it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay.programs import compiled
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.relay.transform import SimplifyExpr

C = relay.const


def tensor(*shape: Any, dtype: str = "float32", name: str = "x") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def unchanged(expr: Any) -> None:
    assert_becomes(SimplifyExpr(), expr, expr)


def test_reshapes_in_a_row_are_one() -> None:
    x = tensor(1, 16, 16, 16)
    y = relay.reshape(relay.reshape(relay.reshape(relay.exp(x), (1, 16, -1)), (4, 8, -1, 16)), (32, 16, 8))
    assert_becomes(SimplifyExpr(), y, relay.reshape(relay.exp(x), (32, 16, 8)))


def test_a_reshape_to_the_same_shape_is_nothing() -> None:
    x = tensor(2, 3)
    assert_becomes(SimplifyExpr(), relay.exp(relay.reshape(x, (2, -1))), relay.exp(x))


def test_reshapes_of_unknown_sizes_stay() -> None:
    x = tensor(relay.Any(), 6)
    unchanged(relay.reshape(relay.reshape(x, (-1, 3)), (-1, 2)))


IMAGE = (1, 3, 8, 8)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (lambda x: relay.transpose(relay.transpose(x), None), lambda x: x),
        (lambda x: relay.transpose(relay.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2)), lambda x: x),
        (
            lambda x: relay.transpose(
                relay.layout_transform(relay.transpose(x, (0, 2, 3, 1)), "NHWC", "HWCN"), (3, 0, 1, 2)
            ),
            lambda x: relay.transpose(x, (0, 2, 3, 1)),
        ),
        (
            lambda x: relay.transpose(relay.transpose(relay.transpose(x), (0, 2, -1, 1))),
            lambda x: relay.transpose(x, (2, 0, 1, 3)),
        ),
        (lambda x: relay.transpose(x, (0, 1, 2, 3)), lambda x: x),
        (lambda x: relay.layout_transform(x, "NCHW", "NCHW"), lambda x: x),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NHWC"), "NHWC", "CHWN"),
            lambda x: relay.transpose(x, (1, 2, 3, 0)),
        ),
        (
            lambda x: relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW3c"), "NCHW3c", "NCHW"),
            lambda x: x,
        ),
        (
            lambda x: relay.layout_transform(relay.transpose(x, (0, 2, 3, 1)), "NHWC", "NCHW3c"),
            lambda x: relay.layout_transform(x, "NCHW", "NCHW3c"),
        ),
        (
            lambda x: relay.transpose(
                relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW3c"), "NCHW3c", "NCHW"), (0, 2, 3, 1)
            ),
            lambda x: relay.transpose(x, (0, 2, 3, 1)),
        ),
    ],
)
def test_permutations_in_a_row_are_one(before: Callable[..., Any], expected: Callable[..., Any]) -> None:
    x = tensor(*IMAGE)
    assert_becomes(SimplifyExpr(), before(relay.nn.relu(x)), expected(relay.nn.relu(x)))


def test_a_layout_that_pads_is_kept() -> None:
    x = tensor(*IMAGE)
    y = relay.layout_transform(relay.layout_transform(x, "NCHW", "NCHW2c"), "NCHW2c", "NCHW")
    assert after(SimplifyExpr(), y).checked_type.ret_type == module(y)["main"].checked_type.ret_type


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize(
    ("name", "value", "sides"),
    [("add", 0, "both"), ("subtract", 0, "right"), ("multiply", 1, "both"), ("divide", 1, "right")],
)
def test_an_operand_that_changes_nothing_goes(name: str, value: int, sides: str, dtype: str) -> None:
    operator = getattr(relay, name)
    x = tensor(2, 3, dtype=dtype)
    fills = [C(value, dtype), relay.full(C(value, dtype), (2, 3)), relay.full_like(x, C(value, dtype))]
    fills += [(relay.zeros, relay.ones)[value]((3,), dtype), (relay.zeros_like, relay.ones_like)[value](x)]
    for fill in fills:
        assert_becomes(SimplifyExpr(), operator(x, fill), x, x)
        if sides == "both":
            assert_becomes(SimplifyExpr(), operator(fill, x), x, x)


def test_an_operand_that_changes_the_shape_stays() -> None:
    x = tensor(2, 3)
    unchanged(x + relay.zeros((4, 2, 3), "float32"))
    y = tensor(relay.Any())
    unchanged(y + relay.zeros((1,), "float32"))


def test_a_tensor_of_equal_elements_becomes_a_scalar() -> None:
    x = tensor(2, 3)
    assert_becomes(SimplifyExpr(), relay.full(C(3.0), (2, 3)) - x, C(3.0) - x)
    assert_becomes(SimplifyExpr(), x / relay.full_like(x, C(3.0)), x / C(3.0))
    assert_becomes(SimplifyExpr(), relay.zeros((2, 3), "float32") - x, C(0.0) - x)


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (["int8", "int16", "int32"], ["int8", "int32"]),
        (["int8", "int64", "float32"], ["int8", "float32"]),
        (["float32", "float32"], ["float32"]),
        (["float32", "int32", "float32"], ["float32", "int32", "float32"]),
        (["int64", "bool", "int32"], ["int64", "bool", "int32"]),
        (["int8", "uint8", "int32"], ["int8", "uint8", "int32"]),
        (["int32", "float32", "float64"], ["int32", "float32", "float64"]),
        (["int16", "float32", "int64"], ["int16", "int64"]),
        (["float16", "float32", "float64"], ["float16", "float64"]),
    ],
)
def test_casts_that_lose_nothing_go(chain: list[str], expected: list[str]) -> None:
    x = tensor(3, dtype=chain[0])

    def cast(dtypes: list[str]) -> Any:
        result: Any = x
        for dtype in dtypes[1:]:
            result = relay.cast(result, dtype)
        return result

    assert_becomes(SimplifyExpr(), cast(chain), cast(expected), x)


def test_clips_and_casts() -> None:
    x, f = tensor(4, dtype="int32"), tensor(4, name="f")

    def clipped(v: Any, low: float = 0.0, high: float = 255.0) -> Any:
        return relay.clip(v, low, high)

    def narrow(v: Any, *dtypes: str) -> Any:
        for dtype in dtypes:
            v = relay.cast(v, dtype)
        return v

    assert_becomes(SimplifyExpr(), narrow(clipped(x), "uint8", "int16", "int32"), clipped(x))
    assert_becomes(SimplifyExpr(), narrow(clipped(f), "uint8", "int16", "int32"), narrow(clipped(f), "int32"))
    assert_becomes(SimplifyExpr(), narrow(clipped(f), "uint8", "float32"), narrow(clipped(f), "uint8", "float32"))
    assert_becomes(SimplifyExpr(), narrow(clipped(f), "int8", "int16", "int32"), narrow(clipped(f), "int8", "int32"))
    assert_becomes(SimplifyExpr(), clipped(narrow(x, "uint8")), narrow(x, "uint8"))
    assert_becomes(SimplifyExpr(), clipped(narrow(clipped(x), "uint8"), 9, 300), narrow(clipped(x, 9, 255), "uint8"))
    unchanged(clipped(narrow(f, "float16"), -0.2, 0.4))
    unchanged(clipped(narrow(clipped(f, 0.5, 9.0), "uint8"), 1, 8))


def test_likes_are_concrete_where_the_shape_is_known() -> None:
    x, y = tensor(2, 3, 4), tensor(6, 2, 2, name="y")
    table = {
        "zeros": (relay.zeros_like(x), relay.zeros((2, 3, 4), "float32")),
        "full": (relay.full_like(x, C(1, "int32")), relay.full(C(1, "int32"), (2, 3, 4), "float32")),
        "reshape": (relay.reshape_like(x, y), relay.reshape(x, (6, 2, 2))),
        "part": (relay.reshape_like(x, y, lhs_begin=2, rhs_begin=1), relay.reshape(x, (2, 3, 2, 2))),
        "sum": (
            relay.collapse_sum_like(x, tensor(4, name="z")),
            relay.collapse_sum_to(x, (4,)),
        ),
        "broadcast": (relay.broadcast_to_like(tensor(4, name="z"), x), relay.broadcast_to(tensor(4, name="z"), x)),
    }
    del table["sum"], table["broadcast"]
    for before, expected in table.values():
        assert_becomes(SimplifyExpr(), before, expected, x, y)
    z = tensor(4, name="z")
    assert_becomes(SimplifyExpr(), relay.collapse_sum_like(x, z), relay.collapse_sum_to(x, (4,)), x, z)
    assert_becomes(SimplifyExpr(), relay.broadcast_to_like(z, x), relay.broadcast_to(z, (2, 3, 4)), x, z)
    unknown = tensor(relay.Any(), name="u")
    unchanged(relay.zeros_like(unknown))
    like = tensor(relay.Any(), dtype="int32", name="l")
    assert_becomes(SimplifyExpr(), relay.cast_like(unknown, like), relay.cast(unknown, "int32"), unknown, like)


def test_constants_move_together() -> None:
    x = tensor(32)
    a, b, c = (np.random.default_rng(i).uniform(size=32).astype("float32") for i in range(3))
    A, B, D = C(a), C(b), C(c)
    for before in (x + A + B, A + x + B):
        assert_becomes(SimplifyExpr(), before, x + C(a + b))
    for before in (x * A * B, A * x * B):
        assert_becomes(SimplifyExpr(), before, x * C(a * b))
    for before in ((x + A) * B, B * (A + x)):
        assert_becomes(SimplifyExpr(), before, x * B + C(a * b))
    for before in ((x + A) * B + D, D + B * (A + x)):
        assert_becomes(SimplifyExpr(), before, x * B + C(a * b + c))
    for before in ((x * A + B) * D, D * (B + A * x)):
        assert_becomes(SimplifyExpr(), before, x * C(a * c) + C(b * c))


def test_constants_do_not_grow() -> None:
    x = tensor(4, 4)
    unchanged((x + C(np.ones((4, 1), "float32"))) * C(np.full((1, 4), 2.0, "float32")))


def test_quotients_of_square_roots() -> None:
    x = tensor(3)
    assert_becomes(SimplifyExpr(), C(2.5) / relay.sqrt(x), C(2.5) * relay.rsqrt(x))
    assert_becomes(SimplifyExpr(), C(1.0) / relay.sqrt(x), relay.rsqrt(x))


def test_twice_the_same_is_a_product() -> None:
    x = tensor(3)
    assert_becomes(SimplifyExpr(), x + x, x * C(2.0))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_binomials_are_factored(dtype: str) -> None:
    x, y = tensor(5, dtype=dtype), tensor(5, dtype=dtype, name="y")

    def form(a: int, b: int, c: int) -> Any:
        return C(a, dtype) * x * x + x * C(b, dtype) * y + y * y * C(c, dtype)

    def both(first: Any, second: Any) -> Any:
        return first * second

    one = x + y
    assert_becomes(SimplifyExpr(), form(1, 2, 1), both(one, one), x, y)
    two = x + C(2, dtype) * y
    assert_becomes(SimplifyExpr(), form(1, 4, 4), both(two, two), x, y)
    assert_becomes(SimplifyExpr(), form(6, 5, 1), both(y + C(3, dtype) * x, y + C(2, dtype) * x), x, y)
    for a, b, c in ((1, 1, 1), (2, 5, 2), (1, 3, 1)):
        values = [np.arange(5, dtype=dtype), np.arange(2, 7).astype(dtype)]
        run = compiled([x, y], form(a, b, c))
        simplified = after(SimplifyExpr(), form(a, b, c), x, y)
        assert operators(simplified).count("add") == 2, "a product of no whole numbers"
        np.testing.assert_allclose(compiled(list(simplified.params), simplified.body)(*values), run(*values))
