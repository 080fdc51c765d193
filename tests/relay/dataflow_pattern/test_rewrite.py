"""Rewriting and partitioning by patterns."""

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi

from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.dataflow_pattern import (
    DFPatternCallback,
    FunctionPattern,
    dominates,
    is_constant,
    is_expr,
    is_op,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)


def v(name: str, *shape: Any, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


X, Y, W, B = v("x", 2, 3), v("y", 2, 3), v("w", 4, 3), v("b", 4)


class AddToSubtract(DFPatternCallback):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.a, self.b = wildcard(), wildcard()
        self.pattern = self.a + self.b

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return node_map[self.a][0] - node_map[self.b][0]


class LeaveOut(DFPatternCallback):
    """``relu(relu(x))`` is ``relu(x)``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.inner = is_op("nn.relu")(wildcard())
        self.pattern = is_op("nn.relu")(self.inner)
        self.types: list[str] = []

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        if self.require_type:
            self.types.append(str(pre.checked_type))
        return node_map[self.inner][0]


def relus(count: int) -> Any:
    y: Any = X
    for _ in range(count):
        y = relay.nn.relu(y)
    return y


def test_all_matches_are_replaced() -> None:
    got = AddToSubtract().rewrite((X + Y) * (Y + X))
    assert tvm_ffi.structural_equal(module(got, X, Y)["main"], module((X - Y) * (Y - X), X, Y)["main"])
    nested = rewrite(AddToSubtract(), relay.Function([X, Y], (X + Y) + X))
    assert operators(nested) == ["subtract", "subtract"]


def test_rounds_go_on_unless_one_is_asked_for() -> None:
    assert operators(rewrite(LeaveOut(), relus(5))) == ["nn.relu"]
    assert operators(rewrite(LeaveOut(rewrite_once=True), relus(5))) == ["nn.relu"] * 3
    assert rewrite(LeaveOut(), relus(1)).op.name == "nn.relu"


def test_several_rules_and_types() -> None:
    rule = LeaveOut(require_type=True)
    got = rewrite([rule, AddToSubtract()], relus(2) + Y)
    assert operators(got) == ["nn.relu", "subtract"] and rule.types == ["Tensor[(2, 3), float32]"]


class Becomes(DFPatternCallback):
    """A call of one operator becomes one of another."""

    def __init__(self, before: str, build: Any, **options: Any) -> None:
        super().__init__(**options)
        self.x = wildcard()
        self.pattern = is_op(before)(self.x)
        self.build = build

    def callback(self, pre: Any, post: Any, node_map: Any) -> Any:
        return self.build(node_map[self.x][0])


def test_what_a_rule_makes_is_seen_by_those_before_it() -> None:
    rules = [Becomes("tanh", relay.exp), Becomes("sin", relay.tanh)]
    assert operators(rewrite(rules, relay.sin(X))) == ["exp"]
    assert operators(rewrite([Becomes("tanh", relay.exp), Becomes("sin", relay.cos)], relay.sin(X))) == ["cos"]
    assert rewrite([], X).same_as(X)


def test_a_rule_that_is_applied_once_leaves_the_others_going() -> None:
    grows = Becomes("exp", lambda x: relay.exp(relay.negative(x)), rewrite_once=True)
    assert operators(rewrite([grows, LeaveOut()], relay.exp(relus(3)))) == ["nn.relu", "negative", "exp"]
    # It waits until there is something to change.
    later = [Becomes("tanh", relay.exp, rewrite_once=True), Becomes("sin", relay.tanh)]
    assert operators(rewrite(later, relay.sin(X))) == ["exp"]


def test_rules_that_never_end_are_an_error() -> None:
    grows = Becomes("exp", lambda x: relay.exp(relay.negative(x)))
    with pytest.raises(ModelError, match=r"still changes after 100 applications of Becomes: .* rewrite_once=True"):
        rewrite(grows, relay.exp(X))
    # What makes an equal expression anew changes nothing.
    assert operators(rewrite(Becomes("exp", relay.exp), relay.exp(X))) == ["exp"]


def test_what_is_used_elsewhere_is_left() -> None:
    inner = relay.nn.relu(X)
    outer = relay.nn.relu(inner) + inner
    assert rewrite(LeaveOut(), outer).same_as(outer)


def test_rewriting_inside_branches_and_lets() -> None:
    c, a = v("c", dtype="bool"), v("a", 2, 3)
    program = relay.Let(a, X + Y, relay.If(c, a + X, a))
    assert operators(rewrite(AddToSubtract(), program)) == ["subtract", "subtract"]


PATTERN = is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()))


def layer(x: Any, w: Any = W) -> Any:
    return relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), B))


def test_a_match_becomes_a_call_of_a_function() -> None:
    got = PATTERN.partition(layer(relay.exp(X)), {"Composite": "layer"})
    function = got.op
    assert function.attrs["Composite"] == "layer"
    assert function.attrs["PartitionedFromPattern"] == "nn.dense_nn.bias_add_nn.relu_"
    assert [p.name_hint for p in function.params] == ["FunctionVar_0_0", "FunctionVar_0_1", "FunctionVar_0_2"]
    assert got.args[0].op.name == "exp" and list(got.args)[1:] == [W, B]
    assert relay.analysis.free_vars(function) == []
    before, after = (module(e, X, W, B)["main"].checked_type for e in (layer(relay.exp(X)), got))
    assert str(before) == str(after)


def test_partition_again_changes_nothing() -> None:
    got = PATTERN.partition(layer(X))
    assert PATTERN.partition(got).same_as(got)


def test_layers_in_a_row_become_functions_in_a_row() -> None:
    square = v("s", 4, 4)
    got = PATTERN.partition(layer(layer(X), square))
    assert isinstance(got.op, relay.Function) and isinstance(got.args[0].op, relay.Function)


def test_a_check_may_refuse() -> None:
    program = layer(X)
    assert PATTERN.partition(program, check=lambda root: root.args[0].op.name != "nn.bias_add").same_as(program)


def test_results_needed_elsewhere_keep_a_match_from_being_a_function() -> None:
    dense = relay.nn.dense(X, W)
    program = relay.nn.relu(dense) + dense
    assert is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())).partition(program).same_as(program)


def test_constants_of_the_pattern_stay_in_the_function() -> None:
    c = relay.const(2.0)
    got = (wildcard() * is_constant()).partition(X * c)
    assert list(got.args) == [X] and got.op.body.args[1].same_as(c)
    got = (wildcard() * wildcard()).partition(X * c)
    assert list(got.args) == [X, c]


def test_fields_of_tuples_are_named() -> None:
    parts = relay.split(v("z", 4), 2)
    got = is_op("nn.relu")(is_tuple_get_item(wildcard(), 0)).partition(relay.nn.relu(parts[0]))
    assert got.op.attrs["PartitionedFromPattern"] == "TupleGetItem0_nn.relu_"


def test_neither_expression_nor_function_needs_types() -> None:
    x, w, b = relay.var("x"), relay.var("w"), relay.var("b")
    got = PATTERN.partition(relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, w), b)))
    assert list(got.args) == [x, w, b] and all(p.type_annotation is None for p in got.op.params)
    typed = module(PATTERN.partition(layer(X)), X, W, B)["main"].body
    assert [str(p.checked_type) for p in typed.op.params] == [str(p.type_annotation) for p in (X, W, B)]


def test_arguments_come_in_the_order_of_the_pattern_and_each_once() -> None:
    x, w = is_var("x"), is_var("y")
    got = (x + w).partition(Y + X)
    assert list(got.args) == [X, Y] and got.op.body.args[0].same_as(got.op.params[1])
    y = relay.tanh(X)
    got = ((wildcard() * wildcard()) + (wildcard() * wildcard())).partition((X * y) + (y * Y))
    assert list(got.args) == [X, y, Y] and len(got.op.params) == 3


def test_what_a_check_refuses_is_not_taken_apart() -> None:
    relu = is_op("nn.relu")
    program = relay.exp(relus(3))
    pairs = relu(relu(wildcard()))
    seen: list[Any] = []
    assert pairs.partition(program, check=lambda root: seen.append(root) is not None).same_as(program)
    assert [s.args[0].op.name for s in seen] == ["nn.relu"]


def test_uses_outside_that_lead_to_the_root_do_not_matter() -> None:
    total = X + Y
    program = total * relay.sigmoid(total)
    got = ((wildcard() + wildcard()) * wildcard()).partition(program)
    assert got.op.attrs["PartitionedFromPattern"] == "add_multiply_"
    assert list(got.args)[:2] == [X, Y] and got.args[2].op.name == "sigmoid"
    before, after = (module(e, X, Y)["main"].checked_type for e in (program, got))
    assert str(before) == str(after)


def test_constants_stay_inside_where_the_pattern_names_them() -> None:
    c = relay.const(2.0)
    got = (wildcard() * is_expr(c)).partition(X * c)
    assert list(got.args) == [X]
    got = (wildcard() * (is_var() | is_constant())).partition(X * c)
    assert list(got.args) == [X] and got.op.body.args[1].same_as(c)


def test_calls_of_functions_become_part_of_one() -> None:
    a, b = v("a", 2, 3), v("b", 2, 3)
    inner = relay.Function([a, b], a * b)
    p, q = wildcard(), wildcard()
    got = (FunctionPattern([p, q], p * q)(wildcard(), wildcard()) + wildcard()).partition(inner(X, Y) + X)
    assert got.op.attrs["PartitionedFromPattern"] == "multiply_FunctionCall_add_"
    assert list(got.args) == [X, Y] and got.op.body.args[0].op.same_as(inner)


def test_a_pattern_of_a_function_has_nothing_to_partition(caplog: pytest.LogCaptureFixture) -> None:
    program = relay.Function([X], relay.exp(X))
    assert FunctionPattern(None, wildcard()).partition(program).same_as(program)
    assert "is not called has no value" in caplog.text


def test_what_lies_between_parent_and_child_becomes_part_of_the_function() -> None:
    data, kernel = v("i", 1, 3, 8, 8), v("k", 5, 3, 3, 3)
    conv = is_op("nn.conv2d")(wildcard(), wildcard())
    path = is_op("nn.relu")(wildcard()) | is_op("multiply")(wildcard(), wildcard())
    y = relay.nn.conv2d(data, kernel)
    program = relay.nn.relu(y) + relay.nn.relu(y * y)
    got = dominates(conv, path, wildcard() + wildcard()).partition(program)
    assert list(got.args) == [data, kernel]
    assert got.op.attrs["PartitionedFromPattern"] == "nn.conv2d_nn.relu_multiply_nn.relu_add_"
