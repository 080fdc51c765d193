"""What is known when compiling is computed when compiling."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.relay.ir import post_order
from vmkit.relay.transform import FoldConstant, InferType, SimplifyInference


def operators(mod: tvm.IRModule) -> list[str]:
    nodes = post_order(mod["main"])
    return [n.op.name for n in nodes if isinstance(n, relay.Call) and hasattr(n.op, "name")]


def normalized(**attrs: object) -> tuple[tvm.IRModule, list[np.ndarray]]:
    rng = np.random.default_rng(0)
    vectors = [rng.uniform(0.5, 2, 3).astype("float32") for _ in range(4)]
    x = relay.var("x", shape=(relay.Any(), 3, 2, 2))
    result = relay.nn.batch_norm(x, *map(relay.const, vectors), **attrs)
    return InferType()(tvm.IRModule({"main": relay.Function([x], relay.TupleGetItem(result, 0))})), vectors


@pytest.mark.parametrize("attrs", [{}, {"scale": False}, {"center": False}, {"epsilon": 0.1}])
def test_batch_norm_becomes_one_product_and_one_sum(attrs: dict) -> None:
    mod, (gamma, beta, mean, var) = normalized(**attrs)
    folded = FoldConstant()(SimplifyInference()(mod))
    assert operators(folded) == ["multiply", "add"]
    x = np.random.default_rng(1).standard_normal((2, 3, 2, 2)).astype("float32")
    result = vmkit.VirtualMachine(vmkit.compile(mod, target="llvm")).run(x).numpy()
    column = [v.reshape(3, 1, 1) for v in (gamma, beta, mean, var)]
    expected = (x - column[2]) / np.sqrt(column[3] + attrs.get("epsilon", 1e-5))
    expected = expected * (column[0] if attrs.get("scale", True) else 1) + (
        column[1] if attrs.get("center", True) else 0
    )
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_an_operator_with_several_results_becomes_a_tuple_of_constants() -> None:
    values = np.arange(6, dtype="float32")
    whole = relay.split(relay.const(values), 3).astuple()
    folded = folded_body(result=whole)
    assert isinstance(folded, relay.Tuple) and all(isinstance(field, relay.Constant) for field in folded.fields)
    np.testing.assert_array_equal([field.data.numpy() for field in folded.fields], values.reshape(3, 2))
    nested = folded_body(result=relay.Tuple([whole, relay.TupleGetItem(whole, 1)]))
    np.testing.assert_array_equal(nested.fields[0].fields[2].data.numpy(), values[4:])
    np.testing.assert_array_equal(nested.fields[1].data.numpy(), values[2:4])


def test_batch_norm_is_written_as_relay_wrote_it() -> None:
    x, *vectors = (relay.var(n, shape=s) for n, s in (("x", (2, 3)), *((n, (3,)) for n in "gbmv")))
    gamma, beta, mean, variance = vectors
    norm = relay.TupleGetItem(relay.nn.batch_norm(x, *vectors)[0].tuple_value, 0)
    scale = relay.const(1.0) / relay.sqrt(variance + relay.const(1e-5)) * gamma
    expected = x * scale + (relay.negative(mean) * scale + beta)
    found = SimplifyInference()(tvm.IRModule({"main": relay.Function([x, *vectors], norm)}))["main"]
    assert relay.structural_equal(found.body, expected, map_free_vars=True)


def test_dropout_is_left_to_simplify_inference() -> None:
    mod = tvm.IRModule({"main": relay.Function([], relay.nn.dropout(relay.const(np.ones(3, "float32"))))})
    assert operators(FoldConstant()(mod)) == ["nn.dropout"]
    assert operators(FoldConstant()(SimplifyInference()(mod))) == []


def test_dropout_is_nothing() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule({"main": relay.Function([x], relay.exp(relay.nn.dropout(x)))})
    assert operators(SimplifyInference()(InferType()(mod))) == ["exp"]


def test_only_the_largest_constant_parts_are_computed() -> None:
    x = relay.var("x", shape=(2,))
    part = relay.exp(relay.const(np.ones(2, "float32")))
    mod = tvm.IRModule({"main": relay.Function([x], relay.Tuple([x + relay.tanh(part), x * part]))})
    folded = FoldConstant()(mod)
    assert sorted(operators(folded)) == ["add", "multiply"]
    values = [n.data.numpy()[0] for n in post_order(folded["main"]) if isinstance(n, relay.Constant)]
    np.testing.assert_allclose(sorted(values), sorted([np.tanh(np.e), np.e]), rtol=1e-6)


def test_a_constant_that_would_grow_a_lot_is_left() -> None:
    big = relay.broadcast_to(relay.const(1.0), (1024, 1024))
    x = relay.var("x", shape=(1024, 1024))
    assert operators(FoldConstant()(tvm.IRModule({"main": relay.Function([x], x + big)}))) == ["broadcast_to", "add"]


def test_a_weight_of_many_more_elements_than_it_is_made_of_is_left() -> None:
    x = relay.var("x", shape=(1, 1024, 4, 4))
    for outputs, left in ((512, []), (2048, ["broadcast_to"])):
        weight = relay.broadcast_to(relay.const(np.ones((outputs, 1, 1, 1), "float32")), (outputs, 1024, 1, 1))
        conv = relay.nn.conv2d(x, weight, kernel_size=(1, 1), channels=outputs)
        made = FoldConstant()(tvm.IRModule({"main": relay.Function([x], conv)}))
        assert operators(made) == [*left, "nn.conv2d"]


def test_weights_that_kernels_take_as_constants_are_of_a_wider_type() -> None:
    x, rows = relay.var("x", shape=(1, 8, 8, 256)), relay.var("rows", shape=(2, 256))
    numbers = (np.arange(2048 * 256) % 199 - 99).reshape(2048, 256, 1, 1)
    half, whole = (relay.cast(relay.const(numbers.astype(dtype)), "float32") for dtype in ("float16", "int8"))
    for weight in (half, relay.multiply(whole, relay.const(np.float32(1)))):
        conv = relay.nn.conv2d(x, weight, kernel_size=(1, 1), channels=2048, data_layout="NHWC")
        dense = relay.nn.dense(rows, relay.reshape(weight, (2048, 256)))
        functions = relay.Function([x], conv), relay.Function([rows], dense)
        kept = [FoldConstant()(tvm.IRModule({"main": each}))["main"].body.args[1] for each in functions]
        # A dense weight of integers stays one, and is a quarter of the size.
        assert [isinstance(each, relay.Constant) for each in kept] == [True, weight is half]
        np.testing.assert_array_equal(kept[0].data.numpy(), numbers)


def test_a_program_without_constant_parts_is_left_as_it_is() -> None:
    x = relay.var("x", shape=(2,))
    mod = InferType()(tvm.IRModule({"main": relay.Function([x], relay.exp(x))}))
    assert FoldConstant()(mod)["main"].same_as(mod["main"])


def folded_body(*params: relay.Var, result: object) -> object:
    mod = FoldConstant()(tvm.IRModule({"main": relay.Function(params, result), "other": relay.Function([], X_SIZE)}))
    assert len(mod.functions) == 2
    return mod["main"].body


X = relay.var("x", shape=(2, 3))
X_SIZE = relay.ndarray_size(relay.const(np.ones(3, "float32")))


def test_sizes_of_static_shapes_are_constants() -> None:
    sizes = folded_body(X, result=relay.Tuple([relay.shape_of(X, "int64"), relay.ndarray_size(X, dtype="int32")]))
    assert [(f.data.numpy().tolist(), f.data.dtype) for f in sizes.fields] == [([2, 3], "int64"), (6, "int32")]
    y = relay.var("y", shape=(2, relay.Any()))
    assert isinstance(folded_body(y, result=relay.shape_of(y)), relay.Call)


def test_the_size_of_what_has_an_effect_is_left() -> None:
    cell, written = relay.Var("cell"), relay.Var("written")
    read = relay.RefRead(cell)
    body = relay.Let(written, relay.RefWrite(cell, X), relay.Tuple([relay.shape_of(read), read]))
    kept = folded_body(X, result=relay.Let(cell, relay.RefCreate(X), body))
    assert isinstance(kept.body.body.fields[0], relay.Call)


def test_an_if_on_what_is_known_is_its_branch() -> None:
    condition = relay.less(relay.const(1), relay.const(2))
    assert folded_body(X, result=relay.If(condition, relay.exp(X), X)).op.name == "exp"


def test_lets_of_constants_are_computed_and_those_of_the_rest_stay() -> None:
    one, two, rest = relay.Var("one"), relay.Var("two"), relay.Var("rest")
    body = relay.Let(rest, X * two, rest + one)
    kept = folded_body(X, result=relay.Let(one, relay.const(1.0), relay.Let(two, one + one, body)))
    assert kept.var.name_hint == "rest" and kept.value.args[1].data.numpy() == 2
    assert kept.body.args[1].data.numpy() == 1


def test_one_expression_is_folded_over_a_module() -> None:
    double = relay.GlobalVar("double")
    mod = tvm.IRModule({double: relay.Function([X], X + X)})
    call = relay.transform.FoldConstantExpr(relay.Call(double, [X * (relay.const(1.0) + relay.const(2.0))]), mod)
    assert call.args[0].args[1].data.numpy() == 3
    function = relay.transform.FoldConstantExpr(relay.Function([], relay.const(1) + relay.const(2)), mod)
    assert function.body.data.numpy() == 3 and [v.name_hint for v in mod.functions] == ["double"]


def test_equal_tuples_and_equal_constants_make_equal_calls() -> None:
    ones = [relay.const(np.ones((2, 3), "float32")) for _ in range(3)]
    joined = [relay.concatenate([X, c], axis=0) for c in (*ones, relay.const(np.zeros((2, 3), "float32")))]
    shared = relay.transform.EliminateCommonSubexpr()(tvm.IRModule({"main": relay.Function([X], relay.Tuple(joined))}))
    first, second, third, other = shared["main"].body.fields
    assert first.same_as(second) and first.same_as(third) and not first.same_as(other)


def test_what_is_computed_from_a_constant_keeps_its_type() -> None:
    x = relay.var("x", shape=(2, 3))
    sums = relay.add(x, relay.negative(relay.const(np.ones(3, "float32"))))
    mod = InferType()(tvm.IRModule({"main": relay.Function([x], relay.exp(sums))}))
    given, folded = mod["main"], FoldConstant()(mod)["main"]
    assert isinstance(folded.body.args[0].args[1], relay.Constant)
    for new, old in ((folded, given), (folded.body, given.body), (folded.body.args[0], given.body.args[0])):
        assert not new.same_as(old)
        assert new.checked_type.same_as(old.checked_type)
