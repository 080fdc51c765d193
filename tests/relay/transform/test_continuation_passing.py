"""Continuation passing style, there and back."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relay.programs import compiled
from tests.relay.transform.passes import module
from vmkit import relay
from vmkit.errors import ModelError
from vmkit.relay.ir import post_order
from vmkit.relay.transform import InferType, to_cps, un_cps

INT = relay.TensorType((), "int32")


def inferred(function: relay.Function) -> relay.Function:
    return InferType()(tvm.IRModule({"main": function}))["main"]


def test_the_type_takes_a_continuation_and_an_answer() -> None:
    x = relay.var("x", shape=(2,))
    ty = inferred(to_cps(module(x, x)["main"])).checked_type
    (answer,) = ty.type_params
    assert str(ty.arg_types[1]) == f"fn (Tensor[(2), float32]) -> {answer}"
    assert ty.ret_type.same_as(answer)


def test_both_branches_call_what_follows_them() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=())
    mod = module(relay.exp(relay.If(c, x + x, x * x)), c, x)
    converted = to_cps(mod["main"])
    assert len([n for n in post_order(converted) if relay.ir.is_call(n, "exp")]) == 1
    back = inferred(un_cps(inferred(converted)))
    run = compiled(list(back.params), back.body)
    got = [float(run(np.array(value), np.array(3.0, "float32"))) for value in (True, False)]
    np.testing.assert_allclose(got, np.exp([6.0, 9.0]), rtol=1e-5)


def test_global_functions_get_counterparts_in_the_module() -> None:
    f, n, x = relay.GlobalVar("f"), relay.Var("n", INT), relay.Var("x", INT)
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(0), n + f(n - relay.const(1)))
    mod = InferType()(tvm.IRModule({f: relay.Function([n], body, INT), "main": relay.Function([x], f(x))}))
    mod["main"] = to_cps(mod["main"], mod)
    assert "f_cps" in [gvar.name_hint for gvar in mod.functions]
    mod = InferType()(mod)
    mod["main"] = un_cps(mod["main"])
    run = relay.create_executor("vm", mod=InferType()(mod), device=tvm.cpu(), target="llvm").evaluate()
    assert int(run(np.array(6, "int32")).numpy()) == 21


def test_a_shared_value_stays_one() -> None:
    x = relay.var("x", shape=())
    shared = relay.exp(x)
    converted = to_cps(module(shared + shared, x)["main"])
    assert len([n for n in post_order(converted) if relay.ir.is_call(n, "exp")]) == 1


def test_what_cannot_be_converted_is_refused() -> None:
    x, p = relay.var("x", shape=(2,)), relay.var("p", shape=(2,))
    kernel = relay.Function([p], relay.exp(p), attrs={"Primitive": 1})
    with pytest.raises(ModelError, match="a function marked Primitive takes no continuation"):
        to_cps(module(kernel(x), x)["main"])
    with pytest.raises(ModelError, match="takes no continuation; to_cps makes those that do"):
        un_cps(module(relay.exp(x), x)["main"])
