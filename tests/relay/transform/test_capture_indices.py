"""Spans tell where a node stands in its function's graph, and what every use of it leads to."""

from __future__ import annotations

import tvm

from vmkit import relay


def places(function: relay.Function) -> dict[str, tuple[int, int]]:
    """Return the number and the post-dominator of each call and variable, by what it calls or by its name."""
    mod = relay.transform.CapturePostDfsIndexInSpans()(tvm.IRModule({"main": function}))
    found = {}
    for node in relay.ir.post_order(mod["main"]):
        name = node.op.name if isinstance(node, relay.Call) else getattr(node, "name_hint", type(node).__name__)
        if getattr(node, "span", None) is not None:
            assert node.span.source_name.name == "index"
            found[name] = (node.span.line, node.span.column)
    return found


def test_a_value_used_on_two_ways_is_dominated_by_where_they_meet() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    function = relay.Function([x], relay.tanh(relay.add(relay.sqrt(shared), relay.log(shared))))
    # x, then each operator before its call; the function is last.
    assert places(function) == {
        "x": (0, 5),
        "exp": (5, 9),
        "sqrt": (6, 9),
        "log": (8, 9),
        "add": (9, 10),
        "tanh": (10, 11),
        "Function": (11, -1),
    }


def test_what_nothing_uses_has_no_post_dominator_and_the_module_stays_as_it_was() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = relay.transform.InferType()(tvm.IRModule({"main": relay.Function([x, y], relay.exp(x))}))
    made = relay.transform.CapturePostDfsIndexInSpans()(mod)
    assert [param.span.column for param in made["main"].params] == [3, -1]
    assert mod["main"].params[0].span is None and relay.structural_equal(made, mod)
