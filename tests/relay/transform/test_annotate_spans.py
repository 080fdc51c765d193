"""Spans say where a node stands in the module's own text, and calls say what they were inferred with."""

from __future__ import annotations

import tvm
import tvm_ffi

from vmkit import relay


def test_every_node_gets_its_place_in_the_printed_text() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({"main": relay.Function([x], relay.exp(relay.add(x, relay.const([1.0, 2.0]))))})
    mod = relay.transform.InferType()(mod)
    placed = relay.transform.AnnotateSpans()(mod)
    outer = placed["main"].body
    assert tvm_ffi.structural_equal(placed["main"], mod["main"])
    assert outer.args[0].span.line < outer.span.line
    assert mod["main"].body.span is None


def test_inference_writes_the_types_of_an_operators_arguments_into_its_call() -> None:
    x, y = relay.var("x", shape=(2, relay.Any())), relay.var("y", "int64")
    call = relay.full(relay.const(1.0), shape=(2, 2), dtype="float32") + x
    assert relay.transform.InferTypeLocal(relay.Tuple([call, y])).fields[1] == relay.scalar_type("int64")
    assert [str(t) for t in call.type_args] == ["Tensor[(2, 2), float32]", "Tensor[(2, ?), float32]"]
