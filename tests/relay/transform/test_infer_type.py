"""Type inference: annotations or none, unknown and named dimensions, and errors that say where and why."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.transform import InferType, infer_expr

Any = relay.Any


def type_of(expr: object) -> str:
    return str(infer_expr(expr))


def error_of(*functions: relay.Function) -> str:
    names = ["main", "other", "third"]
    with pytest.raises(TypeCheckError) as caught:
        InferType()(tvm.IRModule(dict(zip(names, functions, strict=False))))
    return str(caught.value)


def test_types_flow_through_operators() -> None:
    x = relay.var("x", shape=(Any(), 4))
    assert type_of(relay.add(x, relay.const(np.ones((3, 1), "float32")))) == "Tensor[(3, 4), float32]"
    assert type_of(relay.less(x, x)) == "Tensor[(?, 4), bool]"


def test_named_dimensions_stay_named() -> None:
    n = tvm.tirx.Var("n", "int64")
    x = relay.var("x", shape=(n, 4))
    assert type_of(relay.reshape(x, (-1, 2))) == "Tensor[(n * 2, 2), float32]"


def test_an_untyped_lambda_is_inferred_from_its_use() -> None:
    x = relay.var("x")
    increment = relay.Function([x], x + relay.const(1.0))
    applied = increment(relay.const(2.0))
    assert type_of(applied) == "float32"
    assert x.type_annotation.dtype == "float32"


def test_a_polymorphic_function_takes_each_type() -> None:
    t = relay.TypeVar("t")
    x = relay.var("x", t)
    identity = relay.GlobalVar("id")
    y = relay.var("y", shape=(2,))
    mod = tvm.IRModule({identity: relay.Function([x], x, t, [t])})
    mod["main"] = relay.Function([y], relay.Tuple([identity_of(identity, y), identity_of(identity, relay.const(1))]))
    mod = InferType()(mod)
    assert str(mod["main"].checked_type) == "fn (Tensor[(2), float32]) -> (Tensor[(2), float32], int32)"


def identity_of(function: relay.GlobalVar, arg: relay.Expr) -> relay.Call:
    return relay.Call(function, [arg])


def test_recursion_without_annotations_is_inferred() -> None:
    loop = relay.GlobalVar("loop")
    i = relay.var("i", "int32")
    body = relay.If(relay.equal(i, relay.const(0)), i, relay.Call(loop, [i - relay.const(1)]))
    mod = InferType()(tvm.IRModule({loop: relay.Function([i], body)}))
    assert str(mod["loop"].checked_type) == "fn (int32) -> int32"


def test_the_dimensions_of_a_call_are_those_of_its_arguments() -> None:
    n, k = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("k", "int64")
    f = relay.GlobalVar("f")
    x, y = relay.var("x", shape=(n, 4)), relay.var("y", shape=(k, 4))
    mod = tvm.IRModule({f: relay.Function([x], relay.reshape(x, (-1,)), relay.TensorType([n * 4]))})
    mod["main"] = relay.Function([y], relay.Call(f, [y]))
    mod = InferType()(mod)
    assert str(mod["main"].checked_type.ret_type) == "Tensor[(k * 4), float32]"


def test_branches_of_different_sizes_join_to_an_unknown_dimension() -> None:
    c, x = relay.var("c", "bool"), relay.var("x", shape=(2, 3))
    assert type_of(relay.If(c, x, relay.const(np.ones((5, 3), "float32")))) == "Tensor[(?, 3), float32]"


def test_a_chain_of_lets_may_be_long() -> None:
    x = relay.var("x", shape=(2,))
    names = [relay.var(f"v{i}") for i in range(2_000)]
    body = names[-1]
    for i in reversed(range(len(names))):
        body = relay.Let(names[i], relay.exp(names[i - 1] if i else x), body)
    assert type_of(relay.Function([x], body)) == "fn (Tensor[(2), float32]) -> Tensor[(2), float32]"


def test_an_unbound_variable_is_named() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    assert error_of(relay.Function([x], x + y)) == (
        "in @main: variable %y is not bound: it is no parameter and no Let binds it"
    )


def test_every_error_of_a_module_is_listed() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    text = error_of(relay.Function([x, y], x + y), relay.Function([y], relay.If(y, y, y)))
    assert "in @main: add(Tensor[(2), float32], Tensor[(3), float32]): dimension 0 of the result would be" in text
    assert "in @other: bool does not agree with Tensor[(3), float32]" in text


def test_one_error_does_not_start_others() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    assert len(error_of(relay.Function([x, y], relay.exp(relay.tanh(x + y)))).splitlines()) == 1


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: relay.Call(tvm.ir.Op.get("add"), [x]), "it takes 2 arguments (lhs, rhs), got 1"),
        (lambda x: relay.TupleGetItem(x, 0), "a field is taken of Tensor[(2), float32], which is no tuple"),
        (lambda x: relay.TupleGetItem(relay.Tuple([x]), 3), "field 3 is taken of (Tensor[(2), float32],), which has 1"),
        (lambda x: relay.Call(x, [x]), "Tensor[(2), float32] is called, which is no function"),
        (lambda x: relay.add(x, relay.const(1)), "the inputs' data types differ: float32 and int32; cast one of them"),
        (lambda x: relay.Call(relay.GlobalVar("f"), [x]), "there is no global function @f; the module has main"),
        (lambda x: relay.reshape(x, (3,)), "the new shape (3) holds 3 elements, the input 2"),
    ],
)
def test_errors_say_where_and_why(build: object, text: str) -> None:
    x = relay.var("x", shape=(2,))
    message = error_of(relay.Function([x], build(x)))
    assert message.startswith("in @main: ") and text in message


def test_an_argument_of_the_wrong_type_names_the_function_and_the_position() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(3,))
    f = relay.GlobalVar("f")
    mod = tvm.IRModule({f: relay.Function([x], x), "main": relay.Function([y], relay.Call(f, [y]))})
    with pytest.raises(
        TypeCheckError, match=r"argument 0 of @f: Tensor\[\(2\), float32\] does not agree with"
    ) as found:
        InferType()(mod)
    assert str(found.value).endswith("In particular dimension 0 conflicts: 2 does not match 3.")


def test_an_unknown_attribute_suggests_the_known_one() -> None:
    with pytest.raises(TypeCheckError, match=r"needs a value|unexpected keyword|missing a required"):
        relay.clip(relay.var("x", shape=(2,)), a_mim=0.0, a_max=1.0)


def test_an_unknown_operator_suggests_the_known_one() -> None:
    with pytest.raises(AttributeError, match="did you mean 'reshape'"):
        _ = relay.reshap


def test_the_program_given_does_not_change() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y")
    shared = relay.add(y, relay.const(1.0))
    function = relay.Function([x], relay.Let(y, relay.exp(x), shared * shared))
    mod = tvm.IRModule({"main": function})
    typed = InferType()(mod)
    assert y.type_annotation is None and function.ret_type is None and function.checked_type_ is None
    assert typed["main"].params[0].same_as(x)
    assert mod["main"].same_as(function) and shared.checked_type_ is None
    assert str(typed["main"].ret_type) == "Tensor[(2), float32]"
    product = typed["main"].body.body
    assert product.args[0].same_as(product.args[1])


def test_what_is_typed_already_stays_the_same() -> None:
    x = relay.var("x", shape=(2,))
    typed = InferType()(tvm.IRModule({"main": relay.Function([x], relay.exp(x))}))
    assert InferType()(typed)["main"].same_as(typed["main"])


def test_passes_leave_an_untyped_program_as_it_is() -> None:
    x = relay.var("x", shape=(2,))
    main = relay.Function([x], relay.nn.dropout(x) + relay.const(1.0))
    before = relay.Function([x], main.body)
    relay.transform.SimplifyInference()(tvm.IRModule({"main": main}))
    relay.transform.function_pass(
        lambda f, mod, context: relay.Function(f.params, relay.exp(f.body)), opt_level=0, name="exp_of_it"
    )(tvm.IRModule({"main": main}))
    assert relay.structural_equal(main, before) and main.ret_type is None and main.body.checked_type_ is None


def test_call_of_a_polymorphic_function_says_what_its_type_parameters_stand_for() -> None:
    text = '#[version = "0.0.5"] def @id[A](%x: A) -> A { %x } def @main(%f: float32) -> float32 { @id(%f) }'
    mod = relay.transform.InferType()(relay.parse(text))
    assert [str(ty) for ty in mod["main"].body.type_args] == ["float32"]
    assert mod["id"].body.same_as(mod["id"].params[0])
