"""RNN, GRU and LSTM: every direction and option, for short sequences, long ones and any length."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.frontend.onnx.programs import Compiled, array, assert_agrees, check, model, node, operators, session
from vmkit.errors import ModelError, VMError
from vmkit.relay.frontend import from_onnx

INPUT, HIDDEN = 3, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
X = {"x": (["t", "n", INPUT], "float32")}
OUTPUTS = {"RNN": "y h", "GRU": "y h", "LSTM": "y h c"}


def weights(kind: str, directions: int = 1) -> dict[str, np.ndarray]:
    gates = GATES[kind] * HIDDEN
    return {
        "w": array(directions, gates, INPUT) / 2,
        "r": array(directions, gates, HIDDEN, seed=1) / 2,
        "b": array(directions, 2 * gates, seed=2),
    }


def layer(kind: str, inputs: str = "x w r b", **attributes: Any) -> list:
    return [node(kind, inputs, OUTPUTS[kind], hidden_size=HIDDEN, **attributes)]


@pytest.mark.sweep
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_any_length(kind: str, direction: str) -> None:
    constants = weights(kind, 2 if direction == "bidirectional" else 1)
    proto = model(layer(kind, direction=direction), X, OUTPUTS[kind], constants)
    check(proto, *[{"x": array(t, n, INPUT)} for t, n in ((1, 1), (3, 2), (40, 3))])


@pytest.mark.parametrize("kind", GATES)
def test_a_short_sequence_is_written_out(kind: str) -> None:
    proto = model(layer(kind), {"x": ([3, "n", INPUT], "float32")}, OUTPUTS[kind], weights(kind))
    compiled = check(proto, *[{"x": array(3, n, INPUT)} for n in (1, 2, 5)])
    assert len(compiled.module.functions) == 1


@pytest.mark.parametrize("kind", GATES)
def test_weights_of_unknown_sizes_have_those_that_hidden_size_says(kind: str) -> None:
    inputs = {
        name: ([None] * len(shape), "float32")
        for name, shape in {"x": "tni", "w": "dgi", "r": "dgh", "b": "dg"}.items()
    }
    compiled = Compiled(model(layer(kind), inputs, OUTPUTS[kind]))
    feed = {"x": array(4, 2, INPUT), **weights(kind)}
    known = Compiled(model(layer(kind), X, OUTPUTS[kind], weights(kind)))
    assert_agrees(compiled(**feed), known(x=feed["x"]), OUTPUTS[kind].split())
    with pytest.raises(VMError, match=r"pin_shape|expected"):
        compiled(**feed | {"r": array(1, GATES[kind] * HIDDEN, HIDDEN + 1)})


@pytest.mark.sweep
@pytest.mark.parametrize("length", [3, 30])
@pytest.mark.parametrize("kind", GATES)
def test_initial_states_and_lengths_of_sequences(kind: str, length: int) -> None:
    states = "h0 c0" if kind == "LSTM" else "h0"
    inputs = {"x": ([length, "n", INPUT], "float32"), "lengths": (["n"], "int32")}
    inputs |= {name: ([2, "n", HIDDEN], "float32") for name in states.split()}
    nodes = layer(kind, f"x w r b lengths {states}", direction="bidirectional")
    proto = model(nodes, inputs, OUTPUTS[kind], weights(kind, 2))
    feed = {"x": array(length, 3, INPUT), "lengths": np.array([length, 1, 2], "int32")}
    feed |= {name: array(2, 3, HIDDEN, seed=5) for name in states.split()}
    check(proto, feed)


@pytest.mark.sweep
@pytest.mark.parametrize("length", [3, 30])
@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", GATES)
def test_a_sequence_of_length_0_ends_in_zeros_as_in_onnxruntime(kind: str, direction: str, length: int) -> None:
    states = "h0 c0" if kind == "LSTM" else "h0"
    inputs = {"x": ([length, "n", INPUT], "float32"), "lengths": (["n"], "int32")}
    inputs |= {name: ([1, "n", HIDDEN], "float32") for name in states.split()}
    proto = model(layer(kind, f"x w r b lengths {states}", direction=direction), inputs, OUTPUTS[kind], weights(kind))
    feed = {"x": array(length, 3, INPUT), **{name: array(1, 3, HIDDEN, seed=5) for name in states.split()}}
    check(proto, *[{**feed, "lengths": np.array(lengths, "int32")} for lengths in ([0, 2, length], [0, 0, 0])])


def test_lstm_with_peepholes_and_clip() -> None:
    nodes = layer("LSTM", "x w r b _ _ _ p", clip=0.5)
    check(model(nodes, X, OUTPUTS["LSTM"], weights("LSTM") | {"p": array(1, 3 * HIDDEN)}), {"x": array(5, 2, INPUT)})


def test_lstm_with_coupled_gates() -> None:
    check(model(layer("LSTM", input_forget=1), X, OUTPUTS["LSTM"], weights("LSTM")), {"x": array(5, 2, INPUT)})


@pytest.mark.parametrize("linear_before_reset", [0, 1])
def test_gru_resets_before_or_after_its_product(linear_before_reset: int) -> None:
    nodes = layer("GRU", linear_before_reset=linear_before_reset)
    check(model(nodes, X, OUTPUTS["GRU"], weights("GRU")), {"x": array(5, 2, INPUT)}, {"x": array(2, 1, INPUT)})


def test_other_activations() -> None:
    nodes = layer(
        "LSTM", activations=["HardSigmoid", "Softsign", "Relu"], activation_alpha=[0.3], activation_beta=[0.4]
    )
    check(model(nodes, X, OUTPUTS["LSTM"], weights("LSTM")), {"x": array(4, 2, INPUT)})


@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_rnn_has_a_name_for_two_directions_as_the_standard_writes_it_out(direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    nodes = layer("RNN", direction=direction, activations=["Tanh", "Relu"])
    check(model(nodes, X, OUTPUTS["RNN"], weights("RNN", count)), {"x": array(4, 2, INPUT)})


@pytest.mark.parametrize(("kind", "expected"), [("LSTM", 3), ("GRU", 2), ("RNN", 1)])
def test_another_number_of_activations_names_the_node(kind: str, expected: int) -> None:
    proto = model(layer(kind, activations=["Tanh"] * 5), X, OUTPUTS[kind], weights(kind))
    with pytest.raises(ModelError, match=rf"{kind}.*activations are Tanh, .*; expected {expected} of them"):
        Compiled(proto)


def test_without_bias() -> None:
    check(model(layer("GRU", "x w r"), X, OUTPUTS["GRU"], weights("GRU")), {"x": array(4, 2, INPUT)})


def test_a_long_sequence_is_a_loop_of_constant_size() -> None:
    proto = model(layer("LSTM"), X, OUTPUTS["LSTM"], weights("LSTM"))
    compiled = Compiled(proto)
    assert len(compiled.module.functions) == 2
    assert "nn.dense" in operators(compiled.module)
    y, h, _ = compiled(x=array(1500, 1, INPUT))
    assert y.shape == (1500, 1, 1, HIDDEN)
    np.testing.assert_allclose(y[-1, 0], h[0], rtol=1e-5)


@pytest.mark.parametrize("kind", GATES)
def test_a_hidden_size_that_disagrees_with_the_weights_names_the_node(kind: str) -> None:
    wrong = node(kind, "x w r b", OUTPUTS[kind], hidden_size=HIDDEN + 1, name="encoder")
    with pytest.raises(ModelError) as caught:
        from_onnx(model([wrong], X, OUTPUTS[kind], weights(kind)))
    text = str(caught.value)
    assert f"node 'encoder' ({kind}, opset 17)" in text
    assert f"hidden_size is {HIDDEN + 1}, but the weights of the recurrence, Tensor[(1, " in text
    assert text.endswith(f"are for a hidden size of {HIDDEN}")


def test_the_hidden_size_may_be_left_to_the_weights() -> None:
    nodes = [node("LSTM", "x w r b", "y h c")]
    given = model(layer("LSTM"), X, "y h c", weights("LSTM"))
    feed = {"x": array(5, 2, INPUT)}
    assert_agrees(Compiled(model(nodes, X, "y h c", weights("LSTM")))(**feed), session(given).run(None, feed), "yhc")


def old_layer(kind: str, outputs: str, output_sequence: int) -> onnx.ModelProto:
    made = node(kind, "x w r b", outputs, hidden_size=HIDDEN, output_sequence=output_sequence, name="encoder")
    names = " ".join(name for name in outputs.split() if name != "_")
    return model([made], X, names, weights(kind), 3 if kind == "GRU" else 1)


@pytest.mark.sweep
@pytest.mark.parametrize("output_sequence", [0, 1])
@pytest.mark.parametrize("kind", GATES)
def test_old_layers_give_the_sequence_that_they_are_asked_for(kind: str, output_sequence: int) -> None:
    feed = {"x": array(5, 2, INPUT)}
    expected = session(model(layer(kind), X, OUTPUTS[kind], weights(kind))).run(None, feed)
    assert_agrees(Compiled(old_layer(kind, OUTPUTS[kind], output_sequence))(**feed), expected, OUTPUTS[kind].split())


def test_an_old_layer_may_leave_out_its_sequence_unless_output_sequence_says_otherwise() -> None:
    feed = {"x": array(5, 2, INPUT)}
    expected = session(model(layer("LSTM"), X, "y h c", weights("LSTM"))).run(None, feed)
    assert_agrees(Compiled(old_layer("LSTM", "_ h c", 0))(**feed), expected[1:], "hc")
    with pytest.raises(ModelError, match=r"node 'encoder'.*output_sequence is 1, but the node leaves out its first"):
        from_onnx(old_layer("LSTM", "_ h c", 1))
    with pytest.raises(ModelError, match="output_sequence is 2; it is 0 or 1"):
        from_onnx(old_layer("LSTM", "y h c", 2))
    with pytest.raises(ModelError, match="it has no attribute 'output_sequence' in opset 17"):
        from_onnx(model(layer("LSTM", output_sequence=1), X, "y h c", weights("LSTM")))


@pytest.mark.sweep
@pytest.mark.parametrize("steps", [1, 20])
@pytest.mark.parametrize("kind", GATES)
def test_a_state_is_for_the_batch_of_the_input(kind: str, steps: int) -> None:
    """Neither batch is known at import; the state is not broadcast, as onnxruntime does not either."""
    states = "h0 c0" if kind == "LSTM" else "h0"
    inputs = {"x": ([steps, None, INPUT], "float32")} | {s: ([1, None, HIDDEN], "float32") for s in states.split()}
    compiled = check(
        model(layer(kind, f"x w r b _ {states}"), inputs, OUTPUTS[kind], weights(kind)),
        {"x": array(steps, 3, INPUT), **{s: array(1, 3, HIDDEN, seed=5) for s in states.split()}},
    )
    with pytest.raises(VMError, match=r"expected 3|differs from that of the input"):
        compiled(x=array(steps, 3, INPUT), **{s: array(1, 1, HIDDEN) for s in states.split()})


def test_a_state_of_another_batch_or_size_is_refused() -> None:
    for shape in ([1, 2, HIDDEN], [1, 3, HIDDEN + 1], [2, 3, HIDDEN]):
        inputs = {"x": ([5, 3, INPUT], "float32"), "h0": (shape, "float32")}
        with pytest.raises(ModelError, match=r"the initial state is .*; the input is for one of Tensor\[\(1, 3, 4\)"):
            from_onnx(model(layer("GRU", "x w r b _ h0"), inputs, "y h", weights("GRU")))


@pytest.mark.sweep
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("kind", GATES)
def test_sequences_whose_sizes_only_the_run_knows(kind: str, layout: int) -> None:
    shaped = node("Reshape", "all shape", "x")
    nodes = [shaped, *layer(kind, layout=layout)]
    inputs = {"all": (["size"], "float32"), "shape": ([3], "int64")}
    x = array(4, 2, INPUT)
    compiled = Compiled(model(nodes, inputs, OUTPUTS[kind], weights(kind)))
    known = Compiled(model(layer(kind, layout=layout), X, OUTPUTS[kind], weights(kind)))
    for given in (x, x[:1], x[:, :1], x[:2]):
        shape = np.array(given.shape, "int64")
        assert_agrees(compiled(all=given.ravel(), shape=shape), known(x=given), OUTPUTS[kind].split())
