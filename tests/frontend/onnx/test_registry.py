"""Converters are found by their version, and take attributes alone or in groups."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx.feeds import X
from tests.frontend.onnx.programs import Compiled, array, assert_agrees, graph, node
from vmkit.errors import ModelError
from vmkit.frontend.onnx import families, registry
from vmkit.frontend.onnx.registry import AttributeGroup, converter, find
from vmkit.frontend.onnx.window import ConvolutionWindow, Window
from vmkit.relay.frontend import from_onnx


@dataclass(frozen=True)
class Border(AttributeGroup):
    width: int = 1
    color: str = "black"


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Register converters in a registry of the test's own."""
    families.load()  # or it would be that registry that they are loaded into
    monkeypatch.setattr(registry, "_CONVERTERS", {})
    yield converter


def framed(ctx: Any, x: Any, *, border: Border, scale: float = 1.0) -> Any:
    return x, border, scale


def test_a_group_takes_the_attributes_of_its_fields(register: Callable[..., Any]) -> None:
    register("Framed", domain="test")(framed)
    found = find("test", "Framed", 1)
    assert found is not None
    assert found.attributes == {"width", "color", "scale"}
    assert found.keywords({"scale": 2.0, "width": 3}) == {"scale": 2.0, "border": Border(3, "black")}


def test_operators_may_lack_some_attributes_of_a_group(register: Callable[..., Any]) -> None:
    register("Framed", domain="test", without=("color",))(framed)
    found = find("test", "Framed", 1)
    assert found is not None and found.attributes == {"width", "scale"}
    with pytest.raises(ValueError, match="Framed is without colour, which no group has"):
        register("Framed", since=2, without=("colour",))(framed)


_DOMAINS = """import json, sys
from onnx import TensorProto, helper
from vmkit.relay.frontend import from_onnx
def import_one(domain, op_type, opset):
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in "xy"]
    graph = helper.make_graph([helper.make_node(op_type, ["x"], ["y"], domain=domain)], "one", *ends)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=8))
    package = "vmkit.frontend.onnx."
    return [name for name in ("operators", "microsoft", "ml") if package + name in sys.modules]
print(json.dumps([import_one("", "Exp", 13), import_one("com.microsoft", "QuickGelu", 13)]))
"""


def test_families_beyond_those_of_onnx_are_loaded_for_operators_of_theirs() -> None:
    done = subprocess.run([sys.executable, "-c", _DOMAINS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["operators"], ["operators", "microsoft", "ml"]]


@pytest.mark.parametrize(("version", "since"), [(1, 1), (16, 1), (17, 17)])
def test_what_onnxruntime_had_in_the_domain_of_onnx_is_found_beside_it(version: int, since: int) -> None:
    found = families.find("ai.onnx", "LayerNormalization", version)
    assert found is not None and found.since == since
    assert families.find("", "NoSuchOperator", version) is None


WINDOWS = {
    ("", "MaxPool"): (Window, set()),
    ("", "MaxUnpool"): (Window, {"auto_pad", "dilations"}),
    ("", "Conv"): (ConvolutionWindow, set()),
    ("", "DeformConv"): (ConvolutionWindow, {"auto_pad"}),
    ("com.microsoft", "FusedConv"): (ConvolutionWindow, set()),
    ("com.microsoft", "ConvTransposeWithDynamicPads"): (ConvolutionWindow, {"pads"}),
    ("com.microsoft", "QLinearAveragePool"): (Window, {"dilations"}),
}


@pytest.mark.parametrize(("domain", "op_type"), WINDOWS)
def test_the_attributes_of_windows_are_known(domain: str, op_type: str) -> None:
    families.load()
    found = find(domain, op_type, 22)
    group, lacking = WINDOWS[domain, op_type]
    assert found is not None and found.groups["window"] is group
    fields = set(group.__dataclass_fields__)
    assert found.attributes & fields == fields - lacking


def test_an_attribute_that_an_operator_without_a_schema_lacks_is_refused() -> None:
    pool = node("QLinearAveragePool", "x s z s z", "y", domain="com.microsoft", kernel_shape=[2, 2], dilations=[2, 2])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    inputs = {"x": ([1, 1, 4, 4], "uint8"), "s": ([], "float32"), "z": ([], "uint8")}
    with pytest.raises(ModelError, match="the attribute dilations is not supported"):
        from_onnx(onnx.helper.make_model(graph([pool], inputs, "y"), opset_imports=imports))
    pool = node("QLinearAveragePool", "x s z s z", "y", domain="com.microsoft")
    with pytest.raises(ModelError, match="the attribute 'kernel_shape' is missing"):
        from_onnx(onnx.helper.make_model(graph([pool], inputs, "y"), opset_imports=imports))


def test_a_graph_of_the_first_opset() -> None:
    nodes = [
        node("Split", "x", "a b", axis=2, split=[1, 3]),
        node("Slice", "x", "c", starts=[1, -2], ends=[3, 9], axes=[1, 2]),
        node("Pad", "x", "d", mode="edge", paddings=[0, 1, 0, 0, 0, 2]),
        node("TopK", "x", "e f", k=2, axis=1),
        node("Dropout", "x", "g m", is_test=1),
        node("Reshape", "x", "h", shape=[0, -1], consumed_inputs=[0]),
        node("Upsample", "image", "i", height_scale=2.0, width_scale=3.0),
    ]
    inputs = X | {"image": ([1, 2, 2, 2], "float32")}
    made = graph(nodes, inputs, "a b c d e f g h i")
    compiled = Compiled(helper.make_model(made, opset_imports=[helper.make_opsetid("", 1)]))
    x, image = array(2, 3, 4), array(1, 2, 2, 2)
    order = np.argsort(-x, 1, kind="stable")[:, :2]
    expected = [
        x[..., :1], x[..., 1:], x[:, 1:3, -2:], np.pad(x, ((0, 0), (1, 0), (0, 2)), "edge"),
        np.take_along_axis(x, order, 1), order, x, x.reshape(2, -1), image.repeat(2, 2).repeat(3, 3),
    ]  # fmt: skip
    assert_agrees(compiled(x=x, image=image), expected, list("abcdefghi"))
