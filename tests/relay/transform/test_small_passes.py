"""Passes of one rule each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.relay.transform import (
    CanonicalizeCast,
    CanonicalizeOps,
    DynamicToStatic,
    FastMath,
    FlattenAtrousConv,
    SplitArgs,
)

C = relay.const


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


@pytest.mark.parametrize("axis", [1, -1, 3])
def test_a_bias_is_a_sum(axis: int) -> None:
    x, b = v("x", relay.Any(), 4, 5, 4), v("b", 4)
    bias = relay.expand_dims(b, axis=1, num_newaxis=2) if axis == 1 else b
    assert_becomes(CanonicalizeOps(), relay.nn.bias_add(x, b, axis=axis), x + bias, x, b)


def test_users_of_a_widening_cast_get_their_own() -> None:
    x, a, b = v("x", 4, dtype="int8"), v("a", 4, dtype="int32"), v("b", 4, dtype="int32")
    wide = relay.cast(x, "int32")
    got = after(CanonicalizeCast(), (wide + a) + (wide + b), x, a, b)
    assert operators(got).count("cast") == 2
    narrow = relay.cast(a, "int8")
    assert operators(after(CanonicalizeCast(), (narrow + x) * narrow, x, a)).count("cast") == 1


def test_fast_approximations() -> None:
    x = v("x", 2, 3)
    table = {
        "exp": (relay.exp(x), relay.fast_exp(x)),
        "erf": (relay.erf(x), relay.fast_erf(x)),
        "tanh": (relay.tanh(x), relay.fast_tanh(x)),
        "softmax": (relay.nn.softmax(x, axis=0), relay.nn.fast_softmax(x, axis=0)),
    }
    for before, expected in table.values():
        assert_becomes(FastMath(), before, expected, x)


def atrous(data: Any, weight: Any, paddings: Any, crops: Any, block: int = 2, **attrs: Any) -> Any:
    split = relay.nn.space_to_batch_nd(data, block_shape=[block, block], paddings=paddings)
    conv = relay.nn.conv2d(
        split, weight, groups=4, channels=4, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWOI", **attrs
    )
    return relay.nn.batch_to_space_nd(conv, block_shape=[block, block], crops=crops)


@pytest.mark.parametrize(
    ("paddings", "crops", "block", "padding"),
    [
        ([[2, 3], [2, 3]], [[0, 1], [0, 1]], 2, [2, 2, 2, 2]),
        ([[4, 7], [4, 7]], [[0, 3], [0, 3]], 4, [4, 4, 4, 4]),
        ([[3, 2], [2, 3]], [[1, 0], [0, 1]], 2, [2, 2, 2, 2]),
    ],
)
def test_a_convolution_of_split_blocks_is_dilated(paddings: Any, crops: Any, block: int, padding: list[int]) -> None:
    rng = np.random.default_rng(0)
    data, weight = v("data", 1, 5, 5, 4), C(rng.integers(-9, 9, (3, 3, 4, 1)).astype("float32"))
    before = atrous(data, weight, paddings, crops, block)
    expected = relay.nn.conv2d(
        data,
        weight,
        padding=padding,
        dilation=[block, block],
        **{"groups": 4, "channels": 4, "kernel_size": [3, 3], "data_layout": "NHWC", "kernel_layout": "HWOI"},
    )
    assert_becomes(FlattenAtrousConv(), before, expected, data)
    x = rng.integers(-9, 9, (1, 5, 5, 4)).astype("float32")
    assert_same(compiled([data], expected)(x), compiled([data], before)(x))


def test_other_convolutions_of_blocks_stay() -> None:
    data, weight = v("data", 1, 5, 5, 4), v("weight", 3, 3, 4, 1)
    edges = ([[2, 3], [2, 3]], [[0, 1], [0, 1]])
    for before in (
        atrous(data, weight, *edges, strides=(1, 2)),
        atrous(data, weight, [[2, 3], [2, 3]], [[3, 1], [0, 1]]),
        relay.nn.space_to_batch_nd(data, block_shape=[2, 2], paddings=edges[0]),
    ):
        assert_becomes(FlattenAtrousConv(), before, before, data, weight)


def dynamic_table() -> dict[str, tuple[Any, Any]]:
    x, y = v("x", 2, 3, 4), v("y", 8, 3)
    image = v("i", 1, 2, 4, 4)
    shape = relay.shape_of(y)
    wide = relay.concatenate([relay.shape_of(x), C(np.array([1], "int32"))], axis=0)
    return {
        "reshape": (relay.reshape(x, shape), relay.reshape(x, (8, 3))),
        "computed": (relay.reshape(x, wide), relay.reshape(x, (2, 3, 4, 1))),
        "broadcast": (relay.broadcast_to(v("b", 3), shape), relay.broadcast_to(v("b", 3), (8, 3))),
        "tile": (relay.tile(y, C(np.array([2, 1]))), relay.tile(y, (2, 1))),
        "zeros": (relay.zeros(shape, "float32"), relay.zeros((8, 3), "float32")),
        "ones": (relay.ones(shape, "int32"), relay.ones((8, 3), "int32")),
        "full": (relay.full(C(2.0), shape), relay.full(C(2.0), (8, 3))),
        "topk": (relay.topk(y, C(2), ret_type="values"), relay.topk(y, 2, ret_type="values")),
        "one_hot": (
            relay.one_hot(v("n", 3, dtype="int32"), C(1), C(0), C(5), -1, "int32"),
            relay.one_hot(v("n", 3, dtype="int32"), C(1), C(0), 5, -1, "int32"),
        ),
        "slice": (
            relay.strided_slice(y, C(np.array([0, 1])), C(np.array([4, 3])), C(np.array([2, 1]))),
            relay.strided_slice(y, (0, 1), (4, 3), (2, 1)),
        ),
        "squeeze": (relay.squeeze(v("s", 1, 3, 1), C(np.array([0, 2]))), relay.squeeze(v("s", 1, 3, 1), [0, 2])),
        "expand": (relay.expand_dims(y, C(1)), relay.expand_dims(y, 1)),
        "upsampling": (
            relay.nn.upsampling(image, C(2.0), C(3.0)),
            relay.nn.upsampling(image, 2.0, 3.0),
        ),
    }


@pytest.mark.parametrize("name", dynamic_table())
def test_shapes_that_are_known_become_attributes(name: str) -> None:
    before, expected = dynamic_table()[name]
    got = after(DynamicToStatic(), _expr(before))
    wanted = module(_expr(expected))["main"]
    assert not any(o.startswith("dyn.") for o in operators(got))
    call, other = got.body, wanted.body
    assert call.op.name == other.op.name
    assert str(call.checked_type) == str(other.checked_type)


def _expr(value: Any) -> Any:
    return value.astuple() if hasattr(value, "astuple") else value


def test_a_static_shape_makes_the_next_one_static() -> None:
    x, y = v("x", 2, 3, 4), v("y", 8, 3)
    first = relay.reshape(x, relay.shape_of(y))
    again = relay.reshape(relay.reshape(first, relay.shape_of(x)), relay.shape_of(first))
    got = after(DynamicToStatic(), again, x, y)
    assert str(got.body.checked_type) == "Tensor[(8, 3), float32]"
    values = [np.arange(24, dtype="float32").reshape(2, 3, 4), np.zeros((8, 3), "float32")]
    assert_same(compiled(list(got.params), got.body)(*values), values[0].reshape(8, 3))


def test_shapes_of_unknown_sizes_stay_dynamic() -> None:
    x, y = v("x", relay.Any()), v("y", relay.Any(), 2)
    assert operators(after(DynamicToStatic(), relay.reshape(x, relay.shape_of(y)), x, y)) == ["shape_of", "dyn.reshape"]


def test_the_branches_of_an_if_on_a_constant_need_not_agree() -> None:
    x = v("x", 2, 2)
    for number, shape in ((1, (1, 4)), (0, (4, 1))):
        branches = relay.If(C(number), relay.reshape(x, (1, 4)), relay.reshape(x, (4, 1)))
        got = DynamicToStatic()(tvm.IRModule({"main": relay.Function([x], branches)}))["main"]
        assert relay.structural_equal(got.body, relay.reshape(x, shape), map_free_vars=True)


@pytest.mark.parametrize("limit", [0, 3, 4, 100])
@pytest.mark.parametrize("length", [2, relay.Any()])
def test_long_concatenations_are_split(limit: int, length: Any) -> None:
    parts = [v(f"p{i}", length, 2) for i in range(7)]
    got = after(SplitArgs(limit), relay.concatenate(parts, axis=1), *parts)
    joins = [n for n in relay.ir.post_order(got) if isinstance(n, relay.Call) and n.op.name == "concatenate"]
    size = 1 if isinstance(length, int) else 4
    if limit in (0, 100):
        assert len(joins) == 1
    else:
        widths = [len(j.args[0].args[0].fields) for j in joins]
        assert all(width == 2 or (width + 1) * size <= limit for width in widths)
        assert len(joins) == (6 if 3 * size >= limit else 3)
    values = [np.full((2, 2), i, "float32") for i in range(7)]
    np.testing.assert_array_equal(compiled(list(got.params), got.body)(*values), np.concatenate(values, axis=1))
