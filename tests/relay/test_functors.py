"""Visitors that users derive from, and what builds Lets, Ifs and loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.relay.programs import compiled
from vmkit import relay
from vmkit.errors import InputError, TypeCheckError
from vmkit.relay.ir import post_order

C = relay.const


def v(name: str, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=(), dtype=dtype)


def samples() -> dict[str, Any]:
    x, y, c = v("x"), v("y"), v("c", "bool")
    some = relay.Constructor("Some", [relay.TypeVar("A")], relay.GlobalTypeVar("Option"))
    some_x = relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(x)]), x)
    return {
        "constant": C(1.0),
        "tuple": relay.Tuple([x, y]),
        "variable": x,
        "global": relay.GlobalVar("f"),
        "function": relay.Function([x, y], x + y),
        "call": x + y,
        "let": relay.Let(x, C(2.0), x + x),
        "if": relay.If(c, x, y),
        "field": relay.TupleGetItem(relay.Tuple([x]), 0),
        "cells": relay.RefWrite(relay.RefCreate(x), relay.RefRead(relay.RefCreate(y))),
        "match": relay.Match(y, [some_x], complete=False),
        "constructor": some,
        "operator": (x + y).op,
    }


@pytest.mark.parametrize("name", samples())
def test_every_kind_of_expression_is_visited(name: str) -> None:
    expr = samples()[name]
    with pytest.raises(NotImplementedError):
        relay.ExprFunctor().visit(expr)
    relay.ExprVisitor().visit(expr)
    assert tvm_ffi.structural_equal(relay.ExprMutator().visit(expr), expr)


class Renaming(relay.ExprMutator):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def visit_var(self, var: relay.Var) -> relay.Var:
        return relay.Var(var.name_hint + "_", var.type_annotation)

    def visit_call(self, call: relay.Call) -> Any:
        self.calls += 1
        return super().visit_call(call)


def test_an_overridden_method_is_called_once_for_each_expression() -> None:
    x = v("x")
    y: Any = x
    for _ in range(100):
        y = y + y
    renaming = Renaming()
    renamed = renaming.visit(relay.Function([x], y))
    assert renaming.calls == 100
    assert [n.name_hint for n in post_order(renamed) if isinstance(n, relay.Var)] == ["x_"]


def test_variables_of_patterns_are_renamed_with_their_uses() -> None:
    match = Renaming().visit(samples()["match"])
    assert match.clauses[0].lhs.patterns[0].var.same_as(match.clauses[0].rhs) and not match.complete


def test_deep_expressions_are_visited() -> None:
    y: Any = v("x")
    for _ in range(8_000):
        y = relay.exp(y)
    mutated = Renaming().visit(y)
    assert sum(1 for _ in post_order(mutated)) == 8_002
    with pytest.raises(TypeError, match="is not a Relay expression"):
        relay.ExprVisitor().visit("x")


def test_types_are_visited() -> None:
    a = relay.TypeVar("a")
    types = [
        relay.TensorType((2, relay.Any()), "int8"),
        relay.TupleType([a, relay.RefType(a)]),
        relay.FuncType([a], relay.TypeCall(relay.GlobalTypeVar("List"), [a]), [a]),
        relay.IncompleteType(),
    ]
    for ty in types:
        with pytest.raises(NotImplementedError):
            relay.TypeFunctor().visit(ty)
        relay.TypeVisitor().visit(ty)
        assert tvm_ffi.structural_equal(relay.TypeMutator().visit(ty), ty)

    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, ty: relay.TensorType) -> relay.TensorType:
            return relay.TensorType(list(ty.shape), "int64")

    assert str(Wider().visit(relay.TupleType([types[0]])).fields[0]) == "Tensor[(2, ?), int64]"


def test_scopes_are_built_in_the_order_of_writing() -> None:
    builder, x = relay.ScopeBuilder(), v("x")
    doubled = builder.let("doubled", x + x)
    with builder.if_scope(doubled < C(1.0)):
        y = builder.let(("y", "float32"), -doubled)
        builder.ret(y * y)
    with builder.else_scope():
        builder.ret(x)
    run = compiled([x], builder.get())
    assert (run(np.float32(-3)), run(np.float32(3))) == (36, 3)


def test_misuse_of_scopes_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="ret is not called"):
        relay.ScopeBuilder().get()
    builder, c = relay.ScopeBuilder(), v("c", "bool")
    with pytest.raises(RuntimeError, match="else scope must follow"), builder.else_scope():
        builder.ret(c)
    with builder.if_scope(c):
        builder.ret(C(1))
    with pytest.raises(RuntimeError, match="without else"):
        builder.get()
    builder = relay.ScopeBuilder()
    builder.ret(c)
    with pytest.raises(RuntimeError, match="already set"):
        builder.ret(c)
    with pytest.raises(ValueError, match="Expect var"):
        builder.let(("a", "b", "c"), c)
    with pytest.raises(ZeroDivisionError), builder.if_scope(c):
        1 / 0  # noqa: B018


def test_loops() -> None:
    i, n = v("i", "int32"), v("n", "int32")
    total = relay.var("total", shape=(relay.Any(),), dtype="int32")
    loop = relay.loops.while_loop(
        lambda i, total: relay.less(i, n),
        [i, total],
        lambda i, total: (i + C(1), relay.concatenate([total, relay.reshape(i, (1,))], axis=0)),
    )
    assert [p.name_hint for p in loop.value.params] == ["i", "total"]
    run = compiled([n], relay.TupleGetItem(loop(C(0), C(np.zeros(1, "int32"))), 1))
    np.testing.assert_array_equal(run(np.int32(3)), [0, 0, 1, 2])


def test_binding_variables_and_parameters() -> None:
    x, y, z = v("x"), v("y"), v("z")
    assert tvm_ffi.structural_equal(relay.bind(x + y, {x: C(1.0)}), C(1.0) + y)
    bound = relay.bind(relay.Function([x, y], x * y), {x: z + z})
    assert list(bound.params) == [y, z]
    assert list(relay.bind(relay.Function([x, y], x * y), {"x": C(2.0)}).params) == [y]
    with pytest.raises(InputError, match="0 variables are named 'w'"):
        relay.bind(x + y, {"w": C(1.0)})


def test_parameters_by_name() -> None:
    x, w = relay.var("x", shape=(1, 2)), relay.var("w", shape=(3, 2))
    bound = relay.build_module.bind_params_by_name(
        relay.Function([x, w], relay.nn.dense(x, w)), {"w": np.ones((3, 2), "float32")}
    )
    assert list(bound.params) == [x] and isinstance(bound.body.args[1], relay.Constant)
    twice = relay.Function([x, relay.var("x", shape=(1, 2))], x)
    with pytest.raises(InputError, match="Multiple args in the function have name x"):
        relay.build_module.bind_params_by_name(twice, {"x": np.ones((1, 2), "float32")})
    with pytest.raises(InputError, match="expected Tensor"):
        relay.build_module.bind_params_by_name(bound, {"x": np.ones(4, "float32")})
    assert isinstance(tvm.IRModule({"main": bound})["main"], relay.Function)


def test_a_mutator_that_changes_nothing_gives_the_same_node() -> None:
    x, condition = relay.var("x", shape=()), relay.var("condition", shape=(), dtype="bool")
    reference = relay.RefCreate(x)
    clause = relay.Clause(relay.PatternTuple([relay.PatternVar(relay.var("field"))]), x)
    for expr in (
        relay.exp(x),
        relay.Tuple([x, x]),
        relay.If(condition, x, relay.exp(x)),
        relay.Let(relay.var("y"), x, x),
        relay.Match(relay.Tuple([x]), [clause]),
        relay.RefWrite(reference, relay.RefRead(reference)),
        relay.Function([x], relay.exp(x)),
    ):
        assert relay.ExprMutator().visit(expr).same_as(expr)


def test_parameters_of_another_data_type_are_converted_without_loss() -> None:
    n, w = relay.var("n", shape=(2,), dtype="int64"), relay.var("w", shape=(2,))
    function = relay.Function([n, w], relay.cast(n, "float32") + w)
    bound = relay.build_module.bind_params_by_name(function, {"n": np.array([1, 2], "int32"), "w": np.array([0.5, 2])})
    values = [bound.body.args[0].args[0], bound.body.args[1]]
    assert [c.checked_type.dtype for c in values] == ["int64", "float32"]
    assert [c.data.numpy().tolist() for c in values] == [[1, 2], [0.5, 2.0]]

    # What the other data type cannot hold stays as it is, and has to suit the function.
    kept = relay.build_module.bind_params_by_name(function, {"n": np.array([1.5, 2.0])})
    assert kept.body.args[0].args[0].checked_type.dtype == "float64"
    assert relay.transform.InferType()(tvm.IRModule({"main": kept}))["main"].ret_type.dtype == "float32"
    unfit = relay.build_module.bind_params_by_name(function, {"w": np.array([0.1, 2])})
    with pytest.raises(TypeCheckError, match="data types differ: float32 and float64"):
        relay.transform.InferType()(tvm.IRModule({"main": unfit}))
