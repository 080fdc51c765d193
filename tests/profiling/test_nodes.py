"""Rows of a profile name the nodes of the model that their kernels were made of, where that is asked for."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import vmkit
from vmkit import relay
from vmkit.profiling import Report, VirtualMachineProfiler

ASKED = {"relay.frontend.fill_span": True}
X = np.ones((1, 16, 6, 6), "float32")


def onnx_model() -> onnx.ModelProto:
    """Return three layers, two of which are alike, and what follows them."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.normal(size=(16, 16, 3, 3)).astype("float32"), f"w{i}") for i in range(3)]
    nodes, last = [], "x"
    for i, activation in enumerate(("Relu", "Relu", "Sigmoid")):
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], f"conv{i}", pads=[1, 1, 1, 1], group=1))
        nodes.append(helper.make_node(activation, [f"c{i}"], [f"a{i}"], f"act{i}"))
        last = f"a{i}"
    nodes.append(helper.make_node("Softmax", [last], ["y"], "end", axis=1))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def nodes_in(report: Report) -> list[str]:
    return [row["Nodes"] for row in report.calls if "Nodes" in row]


@pytest.mark.parametrize("target", ["native", "llvm"])
def test_kernels_name_the_nodes_that_they_were_made_of(target: str) -> None:
    plain = vmkit.compile(onnx_model(), target)
    with vmkit.PassContext(config=ASKED):
        told = vmkit.compile(onnx_model(), target)
    assert plain.profiling and told.profiling
    assert sorted(plain.profiling.hashes().values()) == sorted(told.profiling.hashes().values())  # the same program
    report = VirtualMachineProfiler(told).profile(X)
    kernels = [row for row in report.calls if not row["Name"].startswith("VM::")]
    assert all("Nodes" in row for row in kernels)
    assert {name for row in kernels for name in row["Nodes"].split(", ")} == {
        *("conv0", "act0", "conv1", "act1", "conv2", "act2", "end")
    }
    # Each layer is told apart, though kernels of layers that are alike are one; some processors take two for a layer.
    whole = list(dict.fromkeys(each for each in nodes_in(report) if "conv" in each and "act" in each))
    assert whole[:2] == ["conv0, act0", "conv1, act1"]
    rows = report.table(by_node=True, columns=["Name", "Count"]).splitlines()
    assert "conv1, act1" in [row.split("  ")[0] for row in rows]
    assert "Nodes" in report.csv().splitlines()[0] and '"Nodes": "conv0, act0"' in report.chrome_trace()
    assert Report.from_json(report.json()).calls == report.calls
    assert nodes_in(VirtualMachineProfiler(plain).profile(X)) == []


def test_a_kernel_in_a_branch_names_all_that_it_may_be() -> None:
    text = """#[version = "0.0.5"]
def @main(%c: bool, %x: Tensor[(2, 3), float32]) {
  if (%c) {
    nn.softmax(exp(%x))
  } else {
    nn.softmax(sqrt(%x))
  }
}
"""
    with vmkit.PassContext(config=ASKED, disabled_pass=["FuseOps"]):
        exe = vmkit.compile(relay.parse(text, source_name="two.relay"))
    report = VirtualMachineProfiler(exe).profile(np.array(True), np.ones((2, 3), "float32"))
    named = {row["Name"]: row["Nodes"] for row in report.calls if "Nodes" in row}
    assert named["exp"] == "two.relay:4"
    assert named["nn_softmax"] in ("two.relay:4 | two.relay:6", "two.relay:6 | two.relay:4")


def test_operators_that_a_pass_replaces_keep_their_line() -> None:
    text = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 8), float32]) {
  let %y = nn.batch_flatten(%x);
  nn.log_softmax(nn.dropout(%y).0)
}
"""
    with vmkit.PassContext(config=ASKED):
        exe = vmkit.compile(relay.parse(text, source_name="m"))
    named = nodes_in(VirtualMachineProfiler(exe).profile(np.ones((2, 8), "float32")))
    assert named and all("m:4" in each for each in named)
