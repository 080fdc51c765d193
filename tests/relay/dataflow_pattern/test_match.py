"""What patterns describe, and what not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.dataflow_pattern import (
    FunctionPattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from vmkit.relay.op.registry import OpPattern


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


X, Y, W, B = v("x", 2, 3), v("y", 2, 3), v("w", 4, 3), v("b", 4)
IMAGE, KERNEL = v("i", 1, 3, 8, 8), v("k", 5, 3, 3, 3)


def conv(**attrs: Any) -> Any:
    return relay.nn.conv2d(IMAGE, KERNEL, **attrs)


def test_single_nodes() -> None:
    c = relay.const(np.ones(3, "float32"))
    table: list[tuple[Any, Any, bool]] = [
        (is_op("add"), relay.op.entry("add").op, True),
        (is_op("add") | is_op("subtract"), relay.op.entry("subtract").op, True),
        (is_op("add") | is_op("subtract"), relay.op.entry("multiply").op, False),
        (is_var(), X, True),
        (is_var("x"), X, True),
        (is_var("y"), X, False),
        (is_var(), c, False),
        (is_constant(), c, True),
        (is_constant(), X, False),
        (is_expr(X), X, True),
        (is_expr(X), Y, False),
        (is_expr(c), relay.const(np.ones(3, "float32")), True),
        (wildcard(), X, True),
        (has_dtype("float32"), X, True),
        (has_dtype("int32"), X, False),
        (has_shape((2, 3)), X, True),
        (has_shape((2, relay.Any())), v("a", 2, relay.Any()), True),
        (has_shape((2,)), X, False),
        (has_type(relay.TensorType((2, 3))), X + Y, True),
        (has_type(relay.TensorType((2, 4))), X + Y, False),
        (wildcard().has_dtype("bool"), X < Y, True),
    ]
    for number, (pattern, expr, expected) in enumerate(table):
        assert pattern.match(expr) is expected, number


def test_calls_and_their_operands() -> None:
    x, y = is_var("x"), is_var("y")
    assert (x + y).match(X + Y) and (x + y).match(Y + X)
    assert (x * y).match(Y * X)
    assert (x - y).match(X - Y) and not (x - y).match(Y - X)
    assert (x / y).match(X / Y) and not (x / y).match(Y / X)
    assert is_op("add")(None).match(X + Y)
    assert not is_op("add")(x).match(X + Y)
    same = wildcard()
    assert (same + same).match(X + X) and not (same + same).match(X + Y)
    assert not (wildcard() + wildcard()).match(X)


def test_products_and_quotients_in_another_order() -> None:
    x, y, w = is_var("x"), is_var("y"), is_var("w")
    W3 = v("w", 2, 3)
    assert (x * y / w).match(X * Y / W3) and (x / w * y).match(X / W3 * Y)
    assert (x * y / w).match(X * (Y / W3)) and (x * y / w).match(Y / W3 * X) and (x / w * y).match(X * Y / W3)
    assert not (x * y / w).match(X * Y * W3)


def test_tuples_and_control_flow() -> None:
    c = v("c", dtype="bool")
    pair = relay.Tuple([X, Y])
    assert is_tuple([is_var("x"), wildcard()]).match(pair)
    assert is_tuple(None).match(pair) and not is_tuple([wildcard()]).match(pair)
    item = relay.TupleGetItem(pair, 1)
    assert is_tuple_get_item(wildcard()).match(item) and is_tuple_get_item(is_tuple(None), 1).match(item)
    assert not is_tuple_get_item(wildcard(), 0).match(item)
    assert is_if(is_var("c"), is_var(), wildcard() + wildcard()).match(relay.If(c, X, X + Y))
    assert not is_if(is_var("c"), is_var("y"), wildcard()).match(relay.If(c, X, X + Y))
    assert is_let(is_var("a"), wildcard() + wildcard(), is_var()).match(relay.Let(v("a"), X + Y, Y))
    x = wildcard()
    assert FunctionPattern([x, wildcard()], x + wildcard()).match(relay.Function([X, Y], X + Y))
    assert not FunctionPattern([wildcard()], wildcard()).match(relay.Function([X, Y], X + Y))
    assert FunctionPattern(None, wildcard()).match(relay.Function([X, Y], X + Y))


def test_attributes() -> None:
    pattern = is_op("nn.conv2d")(wildcard(), wildcard())
    assert pattern.has_attr({"data_layout": "NCHW", "strides": [1, 1]}).match(conv())
    assert not pattern.has_attr({"data_layout": "NHWC"}).match(conv())
    assert not pattern.has_attr({"strides": (2, 2)}).match(conv())
    assert not pattern.has_attr({"flavour": 1}).match(conv())
    elementwise = has_attr({"TOpPattern": int(OpPattern.ELEMWISE)})
    assert elementwise(wildcard()).match(relay.exp(X))
    assert not elementwise(wildcard(), wildcard()).match(X + Y)
    function = relay.Function([X], X).with_attr("Composite", "add")
    assert FunctionPattern(None, wildcard()).has_attr({"Composite": "add"}).match(function)
    assert not FunctionPattern(None, wildcard()).has_attr({"Composite": "sub"}).match(function)


def test_optional_parts() -> None:
    dense = is_op("nn.dense")(wildcard(), wildcard())
    pattern = dense.optional(lambda y: is_op("nn.bias_add")(y, wildcard())).optional(is_op("nn.relu"))
    plain = relay.nn.dense(X, W)
    for expr in (plain, relay.nn.bias_add(plain, B), relay.nn.relu(plain), relay.nn.relu(relay.nn.bias_add(plain, B))):
        assert pattern.match(expr)
    assert not pattern.match(relay.nn.relu(X))


def test_patterns_that_refer_to_themselves() -> None:
    chain = wildcard()
    chain.redirect_to(is_op("exp")(chain) | is_var())
    assert chain.match(relay.exp(relay.exp(X))) and not chain.match(relay.exp(relay.sin(X)))


ELEMENTWISE = has_attr({"TOpPattern": int(OpPattern.ELEMWISE)})(None)


def diamond(left: Any, right: Any) -> Any:
    y = conv()
    return left(y) + right(y)


def test_dominators() -> None:
    parent = is_op("nn.conv2d")(wildcard(), wildcard())
    child = wildcard() + wildcard()
    pattern = dominates(parent, ELEMENTWISE, child)
    relu, exp = relay.nn.relu, relay.exp
    assert pattern.match(diamond(relu, lambda y: exp(relu(y))))
    assert child.dominates(parent, ELEMENTWISE).match(diamond(relu, exp))
    assert not pattern.match(diamond(relu, lambda y: relay.nn.softmax(y)))
    assert not pattern.match(relu(X) + exp(X))
    y = conv()
    assert not pattern.match(relay.Tuple([relu(y) + exp(y), y]))


def test_every_operand_of_a_child_leads_back_to_the_one_parent() -> None:
    parent = is_op("nn.conv2d")(wildcard(), wildcard())
    pattern = dominates(parent, ELEMENTWISE, wildcard() + wildcard())
    y, other = conv(), relay.nn.conv2d(IMAGE, v("k2", 5, 3, 3, 3))
    assert pattern.match(relay.nn.relu(y) + y)
    for left, right in ((relay.nn.relu(y), relay.nn.relu(other)), (y, v("bias", 5, 1, 1)), (v("bias", 5, 1, 1), y)):
        assert not pattern.match(left + right)
    # All uses of the parent lead to the child, but so does another input.
    assert not pattern.match(relay.nn.relu(y) + relay.exp(y + v("z", 5, 1, 1)))
    deeper = relay.nn.conv2d(relay.tanh(conv()), v("k3", 5, 5, 1, 1))
    assert not pattern.match(relay.nn.relu(deeper) + relay.nn.relu(deeper.args[0].args[0]))


def test_what_is_on_a_path_may_fork_and_join() -> None:
    parent = is_op("nn.conv2d")(wildcard(), wildcard())
    path = ELEMENTWISE | is_op("multiply")(wildcard(), wildcard())
    pattern = dominates(parent, path, wildcard() + wildcard())
    y = relay.nn.relu(conv())
    for _ in range(40):  # 2 ** 40 ways
        y = y * relay.exp(y)
    assert pattern.match(y + relay.exp(y))


def test_attributes_of_calls_of_functions() -> None:
    function = relay.Function([X], X)
    call = relay.Call(function, [Y], tvm.ir.make_node("ir.DictAttrs", name="first", level=2))
    pattern = wildcard()(wildcard())
    assert pattern.has_attr({"name": "first"}).match(call) and pattern.has_attr({"level": 2}).match(call)
    assert not pattern.has_attr({"name": "second"}).match(call)
    assert not pattern.has_attr({"flavour": 1}).match(call)
    assert not pattern.has_attr({"name": "first"}).match(relay.Call(function, [Y]))


def test_unknown_operators_are_refused() -> None:
    with pytest.raises(TypeCheckError, match=r"no operator 'nn\.con2d'"):
        is_op("nn.con2d")
