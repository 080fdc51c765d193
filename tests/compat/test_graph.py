"""A program as the graph executor's JSON, and its memory planned."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.compat.graph_json import graph_of
from vmkit.compat.memory_plan import graph_plan_memory
from vmkit.errors import ModelError


def _typed(function: relay.Function) -> tvm.IRModule:
    return relay.transform.InferType()(tvm.IRModule({"main": function}))


def _graph(function: relay.Function) -> tuple[dict[str, Any], dict[str, Any]]:
    made = graph_of(_typed(function), "net")
    return json.loads(made.json), made.params


def test_nodes_come_after_what_they_read() -> None:
    x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
    weight = relay.const(np.full((2, 3), 2, "float32"))
    graph, params = _graph(relay.Function([x, y], relay.add(relay.multiply(y, weight), x)))
    assert [node["name"] for node in graph["nodes"]] == ["x", "y", "p0", "tvmgen_net_multiply", "tvmgen_net_add"]
    assert graph["arg_nodes"] == [0, 1, 2] and graph["heads"] == [[4, 0, 0]]
    assert graph["nodes"][4]["inputs"] == [[3, 0, 0], [0, 0, 0]]
    assert graph["attrs"]["shape"] == ["list_shape", [[2, 3]] * 5]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(params["p0"].numpy(), weight.data.numpy())


def test_tuples_are_the_tensors_in_them() -> None:
    x = relay.var("x", shape=(4,))
    parts = relay.split(x, 2, 0)
    graph, _ = _graph(relay.Function([x], relay.Tuple([parts[1], relay.Tuple([x, relay.exp(parts[0])])])))
    assert graph["nodes"][1]["attrs"]["num_outputs"] == "2"
    assert graph["heads"] == [[1, 1, 0], [0, 0, 0], [2, 0, 0]]
    assert graph["node_row_ptr"] == [0, 1, 3, 4]


def test_a_reshape_is_its_argument() -> None:
    x = relay.var("x", shape=(2, 3))
    graph, _ = _graph(relay.Function([x], relay.reshape(relay.exp(x), (6,))))
    assert graph["nodes"][2]["attrs"]["func_name"] == "__nop"
    assert graph["attrs"]["storage_id"] == ["list_int", [0, 1, 1]]


def test_equal_names_are_told_apart() -> None:
    x, other = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    graph, _ = _graph(relay.Function([x, other], relay.exp(relay.exp(relay.add(x, other)))))
    names = [node["name"] for node in graph["nodes"]]
    assert names == ["x", "x_1", "tvmgen_net_add", "tvmgen_net_exp", "tvmgen_net_exp_1"]


def test_a_chain_needs_two_memories_beside_its_input() -> None:
    x = relay.var("x", shape=(10,))
    value = x
    for _ in range(6):
        value = relay.exp(value)
    main = _typed(relay.Function([x], value))["main"]
    plan = graph_plan_memory(main).expr_to_storage_info
    assert {number for info in plan.values() for number in info.storage_ids} == {0, 1, 2}
    assert {info.storage_sizes for info in plan.values()} == {(40,)}
    assert {info.device_types for info in plan.values()} == {(1,)}


def test_what_is_read_later_keeps_its_memory() -> None:
    x = relay.var("x", shape=(10,))
    first = relay.exp(x)
    last = relay.add(relay.exp(relay.exp(first)), first)
    main = _typed(relay.Function([x], last))["main"]
    plan = graph_plan_memory(main).expr_to_storage_info
    others = [info.storage_ids for node, info in plan.items() if not node.same_as(main.body.args[1])]
    assert plan[main.body.args[1]].storage_ids not in others


def test_memory_of_a_16th_grows_and_of_less_does_not() -> None:
    small, big = relay.var("small", shape=(8,)), relay.var("big", shape=(128,))
    summed = relay.add(relay.sum(relay.exp(small)), relay.exp(big))
    plan = graph_plan_memory(_typed(relay.Function([small, big], summed))["main"]).expr_to_storage_info
    sizes = {
        number: size
        for info in plan.values()
        for number, size in zip(info.storage_ids, info.storage_sizes, strict=True)
    }
    # exp(small) and what is summed are 32 and 4 bytes; exp(big), of 512, fits the first when nobody reads it any more.
    assert sorted(sizes.values()) == [4, 32, 32, 512, 512]


def test_control_flow_is_no_graph() -> None:
    x = relay.var("x", shape=(2,))
    choice = relay.If(relay.const(True), x, relay.exp(x))
    with pytest.raises(ModelError, match="a graph has no If"):
        graph_of(tvm.IRModule({"main": relay.Function([x], choice)}))
    unknown = relay.var("x", shape=(relay.Any(),))
    with pytest.raises(ModelError, match="sizes known at compile time"):
        graph_of(tvm.IRModule({"main": relay.Function([unknown], relay.exp(unknown))}))


def test_kinds_of_memory_are_not_shared() -> None:
    texture = relay.VirtualDevice(-1, -1, "global.texture")
    x = relay.var("x", shape=(10,))
    value = x
    for at in range(4):
        y = relay.var("y", shape=(10,))
        step = relay.Function([y], relay.exp(y)).with_attr("Primitive", 1)
        value = (step.with_attr("result_virtual_device", texture) if at % 2 else step)(value)
    plan = graph_plan_memory(_typed(relay.Function([x], value))["main"]).expr_to_storage_info
    rows = [(info.storage_ids[0], info.virtual_devices[0].memory_scope) for info in plan.values()]
    assert rows == [(0, ""), (1, ""), (2, "global.texture"), (1, ""), (2, "global.texture")]
