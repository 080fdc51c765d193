"""Rewriting and partitioning by patterns."""

from __future__ import annotations

from typing import Any

import tvm_ffi

from tests.relay.transform.passes import module, operators
from vmkit import relay
from vmkit.relay.dataflow_pattern import DFPatternCallback, is_constant, is_op, is_tuple_get_item, rewrite, wildcard


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
