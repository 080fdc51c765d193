"""Operators that are defined by functions: those of the model, and the bodies that ONNX gives its own operators."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, parser
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, model, node
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.frontend.onnx import functions, registry
from vmkit.relay.frontend import from_onnx

NESTED = """<ir_version: 10, opset_import: ["": 18, "f": 1]>
main (float[n, 3] x, float b) => (float[n, 3] y, float[n, 3] z, float[n, 3] u) {
  y = f.outer <alpha = 2.0> (x, b)
  z, u = f.outer (x)
}
<domain: "f", opset_import: ["": 13]>
inner <by> (x, least) => (y) {
  by = Constant <value_float = @by> ()
  t = Mul (x, by)
  y = Clip (t, least)
}
<domain: "f", opset_import: ["": 18, "f": 1]>
outer <alpha: float = 0.5> (x, b) => (y, w) {
  t = f.inner <by = @alpha> (x, b)
  w = Neg (t)
  y = MeanVarianceNormalization <axes = [1]> (t)
}
"""


def agrees_with_reference(proto: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> None:
    compiled, peer = Compiled(proto), ReferenceEvaluator(proto)
    for feed in feeds:
        assert_agrees(compiled(**feed), peer.run(None, feed), [o.name for o in proto.graph.output])


def test_functions_call_functions_with_attributes_defaults_and_inputs_left_out() -> None:
    compiled, least = Compiled(parser.parse_model(NESTED)), np.array(0.25, "float32")

    def normal(values: np.ndarray) -> np.ndarray:
        return (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)

    for n in (1, 4):
        x = array(n, 3)
        expected = [normal(np.maximum(2 * x, least)), normal(0.5 * x), -0.5 * x]
        assert_agrees(compiled(x=x, b=least), expected, ["y", "z", "u"])


def test_an_operator_means_what_it_does_in_the_opset_that_the_function_imports() -> None:
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18, "f": 1]>
        main (float[n, 2, 3] x) => (float[n, 2, 3] y, float[n, 2, 3] z) { y = f.old (x) z = Softmax <axis = 1> (x) }
        <domain: "f", opset_import: ["": 11]> old (x) => (y) { y = Softmax (x) }"""
    )
    x = array(2, 2, 3)

    def softmax(values: np.ndarray, axis: int) -> np.ndarray:
        powers = np.exp(values)
        return powers / powers.sum(axis, keepdims=True)

    assert_agrees(Compiled(proto)(x=x), [softmax(x.reshape(2, 6), 1).reshape(2, 2, 3), softmax(x, 1)], ["y", "z"])


def test_attributes_reach_the_graphs_within_a_function() -> None:
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18, "f": 1]>
        main (float[n] x, bool c) => (float[n] y) { y = f.chosen <by = 3.0> (x, c) }
        <domain: "f", opset_import: ["": 18]>
        chosen <by> (x, c, d) => (y) {
          y = If (c) <
            then_branch = one () => (a) { k = Constant <value_float = @by> () a = Mul (x, k) },
            else_branch = two () => (a) { a = Clip (x, d) }
          >
        }"""
    )
    compiled, x = Compiled(proto), array(4)
    for condition, expected in ((True, 3 * x), (False, x)):
        assert_agrees(compiled(x=x, c=np.array(condition)), [expected], ["y"])


def overloaded() -> onnx.ModelProto:
    opset = [helper.make_opsetid("", 18)]
    made = [
        helper.make_function("f", "g", ["x"], ["y"], [node(op, "x", "y")], opset, overload=overload)
        for op, overload in (("Neg", "first"), ("Abs", "second"))
    ]
    calls = [node("g", "x", "a", domain="f", overload="first"), node("g", "x", "b", domain="f", overload="second")]
    proto = model(calls, {"x": (["n"], "float32")}, "a b", opset=18)
    proto.opset_import.append(helper.make_opsetid("f", 1))
    proto.functions.extend(made)
    return proto


def test_functions_of_one_name_are_told_apart_by_their_overloads() -> None:
    x = array(5)
    assert_agrees(Compiled(overloaded())(x=x), [-x, np.abs(x)], ["a", "b"])


def test_a_function_of_the_model_goes_before_an_operator_of_its_name() -> None:
    proto = parser.parse_model(
        """<ir_version: 10, opset_import: ["": 18]> main (float[n] x) => (float[n] y) { y = Relu (x) }
        <domain: "", opset_import: ["": 18]> Relu (x) => (y) { y = Abs (x) }"""
    )
    x = array(5)
    assert_agrees(Compiled(proto)(x=x), [np.abs(x)], ["y"])


REFUSED = {
    "calls itself": ("a (x) => (y) { y = f.b (x) }", "b (x) => (y) { y = f.a (x) }"),
    "f.unknown": ("a (x) => (y) { y = f.b (x) }", "b (x) => (y) { y = f.unknown (x) }"),
    "has no attribute size": ("a (x) => (y) { y = f.b <size = 2> (x) }", "b <length> (x) => (y) { y = Neg (x) }"),
    "it has 2 inputs; the function f.b has 1": ("a (x) => (y) { y = f.b (x, x) }", "b (x) => (y) { y = Neg (x) }"),
    "ai.onnx.Negative .opset 18.": ("a (x) => (y) { y = f.b (x) }", "b (x) => (y) { y = Negative (x) }"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_function_that_cannot_be_is_refused(message: str) -> None:
    bodies = "".join(f'<domain: "f", opset_import: ["": 18, "f": 1]> {f}' for f in REFUSED[message])
    header = '<ir_version: 10, opset_import: ["": 18, "f": 1]> main (float[n] x) => (float[n] y) { y = f.a (x) }'
    with pytest.raises((ModelError, UnsupportedOperatorError), match=message):
        from_onnx(parser.parse_model(header + bodies))


BODIES = [
    node("Celu", "x", "a", alpha=0.5), node("Gelu", "x", "b", approximate="tanh"), node("Mish", "x", "c"),
    node("LayerNormalization", "x s", "d e f", axis=1), node("ReduceLogSumExp", "x axes", "g"),
    node("SoftmaxCrossEntropyLoss", "m t", "h i", reduction="none"), node("Shrink", "x", "j", bias=0.5),
    node("GroupNormalization", "x w w", "k", num_groups=2), node("HardSwish", "x", "l"),
]  # fmt: skip


def test_operators_without_converters_are_imported_by_their_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = {n.op_type for n in BODIES}
    found = registry.find

    def find(domain: str, op_type: str, version: int) -> registry.Converter | None:
        return None if op_type in hidden else found(domain, op_type, version)

    monkeypatch.setattr(registry, "find", find)
    inputs = {"x": (["n", 4, 3], "float32"), "m": (["n", 5], "float32"), "t": (["n"], "int64")}
    constants = {"s": array(4, 3), "w": array(4, seed=1), "axes": np.array([1])}
    proto = model(BODIES, inputs, " ".join(o for n in BODIES for o in n.output), constants, opset=22)
    agrees_with_reference(proto, *[
        {"x": array(n, 4, 3), "m": array(n, 5), "t": np.arange(n) % 5} for n in (1, 3)
    ])  # fmt: skip


def test_the_newest_body_that_the_opset_can_use_is_taken() -> None:
    library = functions.Functions(onnx.ModelProto())
    mvn = helper.make_node("MeanVarianceNormalization", ["x"], ["y"])
    taken = [library.plain(mvn, version) for version in (9, 13, 17, 18, 22)]
    versions = [functions.imported_versions(body.function)[""] for body in taken if body is not None]
    assert versions == [9, 13, 13, 18, 18]
