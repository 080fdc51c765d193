"""QnnCanonicalize writes quantised operators out in others, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
import tvm_ffi

from vmkit import relay
from vmkit.relay import const, transform, var
from vmkit.relay.ir import Call, Op, post_order


def operators(mod: tvm.IRModule) -> set[str]:
    nodes = post_order(mod["main"])
    return {node.op.name for node in nodes if isinstance(node, Call) and isinstance(node.op, Op)}


def module(params: list[Any], body: Any) -> tvm.IRModule:
    return tvm.IRModule({"main": relay.Function(params, body)})


def test_no_quantised_operator_is_left_and_types_stay() -> None:
    x = var("x", shape=(relay.Any(), 3))
    q = relay.qnn.quantize(x, const(0.5), const(1))
    body = relay.qnn.op.dequantize(
        relay.qnn.op.tanh(q, const(0.5), const(1), const(0.1), const(0)), const(0.1), const(0)
    )
    before = transform.InferType()(module([x], body))
    after = relay.qnn.transform.CanonicalizeOps()(relay.qnn.transform.Legalize()(before))
    assert {"qnn.quantize", "qnn.tanh", "qnn.dequantize"} == operators(before)
    assert not [name for name in operators(after) if name.startswith("qnn.")]
    assert str(after["main"].checked_type) == str(before["main"].checked_type)


def test_a_module_without_them_stays_as_it_is() -> None:
    x = var("x", shape=(2,))
    mod = transform.InferType()(module([x], relay.exp(x)))
    assert tvm_ffi.structural_equal(transform.QnnCanonicalize()(mod), mod)


def test_quantized_weights_without_a_zero_point_stay_narrow() -> None:
    x = var("x", shape=(1, 3), dtype="uint8")
    weight = const(np.ones((4, 3), "int8"))
    call = relay.qnn.dense(x, weight, const(7), const(0), const(0.5), const(0.5), 4)
    after = transform.QnnCanonicalize()(module([x], call))
    (dense,) = [n for n in post_order(after["main"]) if isinstance(n, Call) and n.op.name == "nn.dense"]
    assert dense.args[1].data.same_as(weight.data)


def test_constants_are_folded_through_quantised_operators_only_when_asked() -> None:
    x = var("x", shape=(3,), dtype="int8")
    weight = relay.qnn.quantize(const(np.float32([1, -2, 300])), const(0.5), const(0))
    mod = module([x], relay.add(x, weight))
    assert operators(transform.FoldConstant()(mod)) == {"add", "qnn.quantize"}
    folded = transform.FoldConstant(fold_qnn=True)(mod)
    assert operators(folded) == {"add"}
    np.testing.assert_array_equal(folded["main"].body.args[1].data.numpy(), np.int8([2, -4, 127]))


def test_quantised_programs_are_printed_and_parsed() -> None:
    x = var("x", shape=(2, 3), dtype="int32")
    body = relay.qnn.requantize(x, const([0.5, 0.25]), const(1), const(1.0), const(0), axis=0, rounding="TONEAREST")
    mod = transform.InferType()(module([x], body))
    text = relay.astext(mod)
    assert 'axis=0, rounding="TONEAREST", out_dtype="int8"' in text
    assert tvm_ffi.structural_equal(transform.InferType()(relay.parse(text)), mod)
