"""list_fake_quantized_op_freqs."""

import tvm

from vmkit import relay
from vmkit.relay import const
from vmkit.relay.analysis import list_fake_quantized_op_freqs


def test_calls_between_dequantizations_and_quantisations_are_counted() -> None:
    x = relay.var("x", shape=(4, 4), dtype="int8")
    inner = relay.qnn.quantize(relay.nn.relu(relay.qnn.dequantize(x, const(0.5), const(0))), const(0.5), const(0))
    outer = relay.qnn.dequantize(inner, relay.exp(const(0.5)), const(0))
    ends = [relay.qnn.quantize(relay.nn.relu(relay.tanh(outer)), const(s), const(0)) for s in (1.0, 2.0)]
    out = relay.sigmoid(relay.concatenate(ends, 0))
    mod = tvm.IRModule({"main": relay.Function([x], out)})
    # What is below both of the outer quantisations has two calls of its own: they share the dequantization alone.
    assert list_fake_quantized_op_freqs(mod) == {"nn.relu": 3, "tanh": 2}


def test_a_program_of_reals_has_none() -> None:
    x = relay.var("x", shape=(4,))
    assert list_fake_quantized_op_freqs(tvm.IRModule({"main": relay.Function([x], relay.exp(x))})) == {}
