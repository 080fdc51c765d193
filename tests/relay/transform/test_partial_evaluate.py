"""Partial evaluation: what is known before the program runs is computed, and the rest means the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import module
from vmkit import relay
from vmkit.relay.analysis import Feature, detect_feature
from vmkit.relay.ir import post_order
from vmkit.relay.prelude import Prelude
from vmkit.relay.transform import DeadCodeElimination, InferType, PartialEvaluate

INT = relay.TensorType((), "int32")


def evaluated(mod: tvm.IRModule) -> relay.Function:
    """Return main after partial evaluation, without what nobody needs any more."""
    return DeadCodeElimination(inline_once=True, ignore_impurity=True)(PartialEvaluate()(mod))["main"]


def number(body: relay.Expr) -> Any:
    assert isinstance(body, relay.Constant), f"not known:\n{body}"
    return body.data.numpy()


def test_a_recursion_over_known_numbers_is_unfolded() -> None:
    f, n = relay.Var("f"), relay.Var("n", INT)
    step = n + f(n - relay.const(1))
    function = relay.Function([n], relay.If(relay.equal(n, relay.const(0)), relay.const(0), step), INT)
    assert number(evaluated(module(relay.Let(f, function, f(relay.const(10))))).body) == 55


def test_a_recursion_over_unknown_numbers_stays_and_computes_the_same() -> None:
    f, n, x = relay.GlobalVar("f"), relay.Var("n", INT), relay.Var("x", INT)
    step = n + f(n - relay.const(1))
    body = relay.If(relay.equal(n, relay.const(0)), relay.const(0), step)
    mod = InferType()(tvm.IRModule({f: relay.Function([n], body, INT), "main": relay.Function([x], f(x))}))
    made = PartialEvaluate()(mod)
    run = relay.create_executor("vm", mod=made, device=tvm.cpu(), target="llvm").evaluate()
    assert int(run(np.array(6, "int32")).numpy()) == 21


def test_a_recursion_that_never_ends_is_not_unfolded_for_ever() -> None:
    f, n = relay.GlobalVar("f"), relay.Var("n", INT)
    mod = tvm.IRModule({f: relay.Function([n], f(n), INT), "main": relay.Function([], f(relay.const(1)))})
    body = evaluated(InferType()(mod)).body
    assert isinstance(body, relay.Call) and body.op.name_hint == "f"


def test_fields_clauses_and_calls_of_functions_that_are_handed_on_are_taken() -> None:
    mod = tvm.IRModule()
    Prelude(mod)
    cons, nil = relay.find_type(mod, "List").constructors
    x = relay.Var("x", INT)
    double = relay.Function([x], x + x)
    numbers = cons(relay.const(1), cons(relay.const(2), nil()))
    first = mod.get_global_var("hd")(mod.get_global_var("map")(double, numbers))
    mod["main"] = relay.Function([], first)
    assert number(evaluated(InferType()(mod)).body) == 2


def test_references_whose_contents_are_known_are_gone() -> None:
    x, r, done = relay.var("x", shape=(2,)), relay.Var("r"), relay.Var("done")
    body = relay.Let(done, relay.RefWrite(r, relay.RefRead(r) * x), relay.RefRead(r))
    got = evaluated(module(relay.Let(r, relay.RefCreate(x), body), x))
    assert Feature.fRefCreate not in detect_feature(got)
    assert tvm_ffi.structural_equal(got, module(x * x, x)["main"])


def test_a_branch_that_may_write_makes_a_reference_unknown() -> None:
    c, r, done = relay.var("c", shape=(), dtype="bool"), relay.Var("r"), relay.Var("done")
    write = relay.If(c, relay.RefWrite(r, relay.const(1.0)), relay.RefWrite(r, relay.const(2.0)))
    mod = module(relay.Let(r, relay.RefCreate(relay.const(0.0)), relay.Let(done, write, relay.RefRead(r))), c)
    main = PartialEvaluate()(mod)["main"]
    run = compiled(list(main.params), main.body)
    assert [float(run(np.array(value))) for value in (True, False)] == [1.0, 2.0]


def test_random_numbers_are_not_drawn_when_compiling() -> None:
    key = relay.random.threefry_key(0)
    drawn = relay.random.uniform(key, (2,))[1]
    names = [n.op.name for n in post_order(evaluated(module(drawn))) if relay.ir.is_call(n, "random.uniform")]
    pure = relay.op.registry.entry("random.uniform").is_pure
    assert bool(names) is not pure


def test_a_shared_expression_is_computed_once() -> None:
    x = relay.var("x", shape=(2,))
    value: Any = relay.exp(x)
    for _ in range(30):
        value = value + value
    main = PartialEvaluate()(module(value, x))["main"]
    adds = [n for n in post_order(main) if relay.ir.is_call(n, "add")]
    assert len(adds) == 30
    inputs = np.array([0.5, -1.0], "float32")
    assert_same(compiled(list(main.params), main.body)(inputs), np.exp(inputs) * np.float32(2**30), rtol=1e-4)


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_of_a_known_condition_is_taken(taken: bool) -> None:
    x = relay.var("x", shape=(2,))
    got = evaluated(module(relay.If(relay.const(taken), relay.exp(x), relay.tanh(x)), x))
    assert tvm_ffi.structural_equal(got, module(relay.exp(x) if taken else relay.tanh(x), x)["main"])
