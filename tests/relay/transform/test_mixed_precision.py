"""Mixed precision: casts where they pay, none where operators can follow, types of functions kept."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import tvm

from tests.relay.programs import compiled
from tests.relay.transform.passes import after, assert_becomes, module
from vmkit import PassContext, relay
from vmkit.errors import OptionError, UnsupportedOperatorError
from vmkit.relay.op.mixed_precision import conversion_of
from vmkit.relay.transform import InferType, ToMixedPrecision

HALF = "float16"


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def half(x: Any) -> Any:
    return relay.cast(x, HALF)


def conv(x: Any, w: Any, dtype: str) -> Any:
    return relay.nn.conv2d(x, w, padding=(1, 1), out_dtype=dtype)


X, W = v("x", 1, 3, 8, 8), v("w", 5, 3, 3, 3)


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_convolutions_are_cast(dtype: str) -> None:
    expected = conv(relay.cast(X, dtype), relay.cast(W, dtype), dtype)
    assert_becomes(ToMixedPrecision(dtype), conv(X, W, "float32"), expected, X, W)


def test_what_follows_follows() -> None:
    norm = [v(n, 5) for n in ("gamma", "beta", "mean", "var")]
    y = conv(X, W, "float32")
    z = conv(half(X), half(W), HALF)
    table = {
        "sum": (y + y, z + z),
        "norm": (relay.nn.batch_norm(y, *norm)[0], relay.nn.batch_norm(z, *map(half, norm))[0]),
        "softmax": (relay.nn.softmax(y), relay.nn.softmax(relay.cast(z, "float32"))),
    }
    for before, expected in table.values():
        assert_becomes(ToMixedPrecision(), before, expected, X, W, *norm)


def test_what_is_unfit_stays() -> None:
    a = v("a", 1, 3, 16, 16)
    for y in (
        relay.nn.softmax(a),
        relay.sum(a),
        relay.mean(a),
        relay.nn.global_avg_pool2d(a),
        relay.exp(a) + relay.exp(a),
    ):
        assert_becomes(ToMixedPrecision(), y, y, a)
    arange = relay.arange(relay.const(1.0), relay.const(128.0))
    assert_becomes(ToMixedPrecision(), arange, arange)


def test_integers_do_not_keep_an_operator_from_following() -> None:
    data, indices = v("data", 4, 10), v("indices", 2, dtype="int32")
    before = relay.take(data, indices + relay.const(1), axis=1)
    assert_becomes(ToMixedPrecision(), before, relay.take(half(data), indices + relay.const(1), axis=1), data, indices)


def test_variables_of_lets_change_their_types() -> None:
    data, weight = v("data", 1, 20), v("weight", 20, 20)

    def program(dtype: str, change: Any) -> Any:
        w = change(weight)
        a, b = v("a", 1, 20, dtype=dtype), v("b", 1, 20, dtype=dtype)
        out = "" if dtype == "float32" else dtype
        second = relay.Let(b, relay.nn.dense(a + a, w, units=20, out_dtype=out), b + b)
        return relay.Let(a, relay.nn.dense(change(data), w, units=20, out_dtype=out), second)

    assert_becomes(ToMixedPrecision(), program("float32", lambda x: x), program(HALF, half), data, weight)


def test_values_are_close() -> None:
    x, w = v("x", 4, 20), v("w", 20, 20)
    body = relay.nn.softmax(relay.tanh(relay.nn.dense(x, w)) + x)
    got = after(ToMixedPrecision(), body, x, w)
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, s).astype("float32") for s in ((4, 20), (20, 20))]
    np.testing.assert_allclose(
        compiled(list(got.params), got.body)(*values), compiled([x, w], body)(*values), rtol=0.02, atol=0.02
    )


def test_functions_that_are_called_keep_their_types() -> None:
    x, w, p, q = v("x", 2, 3), v("w", 3, 3), v("p", 2, 3), v("q", 3, 3)
    f = relay.GlobalVar("f")
    mod = tvm.IRModule(
        {f: relay.Function([x, w], relay.nn.dense(x, w)), "main": relay.Function([p, q], relay.Call(f, [p, q]) + p)}
    )
    got = ToMixedPrecision()(mod)
    assert str(got[f].checked_type.ret_type) == "Tensor[(2, 3), float32]"
    assert str(ToMixedPrecision()(tvm.IRModule({"main": mod[f]}))["main"].checked_type.ret_type) == (
        "Tensor[(2, 3), float16]"
    )


def test_branches_agree() -> None:
    c, x, w = v("c", dtype="bool"), v("x", 2, 3), v("w", 3, 3)
    got = after(ToMixedPrecision(), relay.If(c, relay.nn.dense(x, w), relay.exp(x)), c, x, w)
    assert str(got.checked_type.ret_type) == "Tensor[(2, 3), float32]"
    both = relay.If(c, relay.nn.dense(x, w), relay.nn.dense(relay.exp(x), w))
    assert str(after(ToMixedPrecision(), both, c, x, w).checked_type.ret_type) == "Tensor[(2, 3), float16]"


def test_loops_keep_their_types() -> None:
    i, x, w = relay.var("i", "int32"), v("x", 2, 2), v("w", 2, 2)
    loop = relay.loops.while_loop(
        lambda i, x: relay.less(i, relay.const(3)), [i, x], lambda i, x: (i + relay.const(1), relay.nn.dense(x, w))
    )
    mod = module(relay.Function([x, w], relay.TupleGetItem(loop(relay.const(0), x), 1)))
    got = ToMixedPrecision()(mod)["main"]
    values = [np.eye(2, dtype="float32") * 2, np.eye(2, dtype="float32") * 3]
    np.testing.assert_allclose(compiled(list(got.params), got.body)(*values), np.eye(2) * 54)


def test_operators_without_a_conversion(caplog: pytest.LogCaptureFixture) -> None:
    x = v("x", 3)
    mod = InferType()(tvm.IRModule({"main": relay.Function([x], relay.sin(x))}))
    with pytest.raises(UnsupportedOperatorError, match=r"registered for sin \(1\)"):
        ToMixedPrecision(missing_op_mode=0)(mod)
    with caplog.at_level(logging.WARNING):
        ToMixedPrecision()(mod)
        assert "sin (1)" in caplog.text
        caplog.clear()
        ToMixedPrecision(missing_op_mode=2)(mod)
        assert not caplog.text
    with pytest.raises(OptionError, match="missing_op_mode is 0, 1 or 2"):
        ToMixedPrecision(missing_op_mode=3)
    with pytest.raises(OptionError, match="a floating data type, not 'int8'"):
        ToMixedPrecision("int8")


def test_users_register_conversions() -> None:
    x = v("x", 3)
    own = conversion_of("exp")
    try:
        relay.op.register_mixed_precision_conversion("exp", lambda call, dtype: [0, dtype, "float32"])
        assert_becomes(ToMixedPrecision(), relay.exp(x), relay.cast(relay.exp(half(x)), "float32"), x)
    finally:
        relay.op.register_mixed_precision_conversion("exp", own)


def test_bounds_beyond_the_lower_precision_keep_clip_in_the_higher() -> None:
    x = v("x", 3)
    wide, narrow = relay.clip(x, -128000.0, 128000.0), relay.clip(x, -6.0, 6.0)
    assert_becomes(ToMixedPrecision(), wide, wide, x)
    assert_becomes(ToMixedPrecision(), narrow, relay.clip(half(x), -6.0, 6.0), x)
    short = relay.clip(relay.cast(x, "bfloat16"), -128000.0, 128000.0)
    assert_becomes(ToMixedPrecision("bfloat16"), wide, short, x)


def test_the_result_of_an_entry_keeps_its_type_if_asked() -> None:
    expected = relay.cast(conv(half(X), half(W), HALF), "float32")
    with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        assert_becomes(ToMixedPrecision(HALF), conv(X, W, "float32"), expected, X, W)
        mod = module(relay.Tuple([conv(X, W, "float32"), X]), X, W)
        assert ToMixedPrecision(HALF)(mod)["main"].ret_type == InferType()(mod)["main"].ret_type
