"""float16 is computed in float32: what is rounded, what keeps its type, and what values come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from tests.relay.op.samples import SAMPLES, Given
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.op.registry import REGISTRY
from vmkit.relay.prelude import Prelude
from vmkit.relay.recurrent_loop import RecurrentLoop
from vmkit.relay.transform import InferType, WidenFloat16, widen_float16
from vmkit.relay.transform.element_type import ElementTypeChange

HALF = "float16"


def v(name: str, *shape: Any, dtype: str = HALF) -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def half(x: Any) -> Any:
    return relay.cast(x, HALF)


def wide(x: Any) -> Any:
    return relay.cast(x, "float32")


X, Y = v("x", 4, 6), v("y", 4, 6)


def run(body: Any, params: list[relay.Var], *arrays: Any, disabled: Sequence[str] = ()) -> Any:
    with vmkit.PassContext(opt_level=3, disabled_pass=disabled):
        machine = vmkit.VirtualMachine(vmkit.compile(relay.Function(params, body), "llvm"), vmkit.device("cpu"))
    return machine.run(*arrays)


def test_steps_between_are_not_rounded() -> None:
    before = relay.nn.softmax(relay.exp(X) * Y)
    assert_becomes(WidenFloat16(), before, half(relay.nn.softmax(relay.exp(wide(X)) * wide(Y))), X, Y)


def test_attributes_name_the_type_that_is_computed_in() -> None:
    before = relay.nn.dense(relay.exp(X), Y, out_dtype=HALF)
    assert_becomes(WidenFloat16(), before, half(relay.nn.dense(relay.exp(wide(X)), wide(Y), out_dtype="float32")), X, Y)


def test_sums_in_float32_stay_so() -> None:
    before = relay.nn.dense(X, Y, out_dtype="float32")
    assert_becomes(WidenFloat16(), before, relay.nn.dense(wide(X), wide(Y), out_dtype="float32"), X, Y)


def test_moved_parameters_and_constants_stay_narrow() -> None:
    table, index = relay.const(np.ones((9, 6), HALF)), v("i", 4, dtype="int64")
    rows = relay.take(table, index, axis=0)
    assert_becomes(WidenFloat16(), rows + X, half(wide(rows) + wide(X)), index, X)
    assert_becomes(WidenFloat16(), relay.transpose(X), relay.transpose(X), X)
    moved = relay.transpose(relay.exp(X))
    assert_becomes(WidenFloat16(), moved, half(relay.transpose(relay.exp(wide(X)))), X)


def test_tuples_are_joined_wide_where_a_part_is() -> None:
    before = relay.concatenate([relay.exp(X), Y], 1)
    assert_becomes(WidenFloat16(), before, half(relay.concatenate([relay.exp(wide(X)), wide(Y)], 1)), X, Y)


def test_what_was_narrow_from_the_start_is_compared_as_it_is() -> None:
    assert_becomes(WidenFloat16(), relay.less(X, Y), relay.less(X, Y), X, Y)
    before = relay.less(relay.exp(X), Y)
    assert_becomes(WidenFloat16(), before, relay.less(relay.exp(wide(X)), wide(Y)), X, Y)


@pytest.mark.parametrize(
    "make", [lambda x: relay.reinterpret(x, "int16"), lambda x: relay.unique(relay.reshape(x, -1))[0]]
)
def test_bits_and_distinct_numbers_are_of_rounded_ones(make: Any) -> None:
    x = np.linspace(0.1, 3, 24).astype(HALF).reshape(4, 6)
    got, plain = (run(make(relay.exp(X)), [X], x, disabled=disabled) for disabled in ((), ["WidenFloat16"]))
    np.testing.assert_array_equal(got.numpy(), plain.numpy())


def test_fractions_are_not_below_0() -> None:
    x = np.nextafter(np.arange(1, 25, dtype=HALF), np.float16(0)).reshape(4, 6)
    number = X * relay.const(np.array(1.0005, HALF))
    fraction = number - relay.floor(number)
    integer = number - half(relay.cast(number, "int32"))
    for part in (fraction, integer, relay.where(number < relay.const(np.array(5, HALF)), fraction, integer)):
        assert (run(part, [X], x).numpy() >= 0).all()


def test_a_pair_of_casts_rounds() -> None:
    x, y = v("x", 4, dtype="float32"), v("y", 4)
    assert_becomes(WidenFloat16(), wide(half(x)), wide(half(x)), x)
    assert_becomes(WidenFloat16(), wide(half(wide(y) + x)), wide(half(wide(y) + x)), x, y)
    value = np.array([1.0001, 2.0003, 0.1, 7], "float32")
    np.testing.assert_array_equal(run(wide(half(x)), [x], value).numpy(), value.astype(HALF).astype("float32"))


def test_casts_where_float16_begins_and_ends_are_taken_out() -> None:
    x = v("x", 4, dtype="float32")
    assert_becomes(WidenFloat16(), wide(relay.exp(half(x))), relay.exp(x), x)


def test_branches_agree() -> None:
    c = v("c", dtype="bool")
    for then in (relay.exp(X), Y):
        got = after(WidenFloat16(), relay.If(c, then, relay.tanh(X)), c, X, Y)
        assert str(got.body.args[0].checked_type) == "Tensor[(4, 6), float32]"
    untouched = relay.If(c, X, Y)
    assert_becomes(WidenFloat16(), untouched, untouched, c, X, Y)


def test_variables_of_lets_go_on_wide() -> None:
    a, b = v("a", 4, 6), v("b", 4, 6, dtype="float32")
    before = relay.Let(a, relay.exp(X), a + a)
    assert_becomes(WidenFloat16(), before, half(relay.Let(b, relay.exp(wide(X)), b + b)), X)


def test_loops_carry_float16() -> None:
    i, s = relay.var("i", shape=(), dtype="int32"), v("s", 4, 6)
    loop = relay.loops.while_loop(
        lambda i, s: relay.less(i, relay.const(5)), [i, s], lambda i, s: [i + relay.const(1), relay.tanh(s) + s]
    )
    body = relay.TupleGetItem(relay.Call(loop, [relay.const(0), X]), 1)
    x = np.linspace(-1, 1, 24).astype(HALF).reshape(4, 6)
    want = x
    for _ in range(5):
        want = (np.tanh(want.astype("float32")) + want.astype("float32")).astype(HALF)
    got = run(body, [X], x).numpy()
    np.testing.assert_allclose(got.astype("float32"), want.astype("float32"), rtol=1e-3)


def test_references_functions_and_data_types_keep_their_types() -> None:
    prelude = Prelude()
    mod = prelude.mod
    _, cons, nil = prelude.get_type("List")
    inner, ref = v("p", 4, 6), relay.Var("r")
    square = relay.Function([inner], relay.exp(inner) * inner)
    held = relay.Let(ref, relay.RefCreate(relay.exp(X)), relay.RefRead(ref) + relay.Call(square, [relay.tanh(X)]))
    mod["main"] = relay.Function([X], relay.Tuple([held, cons(relay.exp(X), nil())]))
    made = WidenFloat16()(InferType()(mod))
    assert str(made["main"].checked_type) == str(InferType()(mod)["main"].checked_type)
    types = {str(n.checked_type) for n in relay.ir.post_order(made["main"]) if isinstance(n, relay.RefCreate)}
    assert types == {"ref(Tensor[(4, 6), float16])"}


def test_the_loop_of_a_recurrent_layer_is_wide() -> None:
    loop, steps, p = relay.GlobalVar("loop"), relay.var("steps", shape=(), dtype="int32"), v("p", 4, 6)
    again = relay.Call(loop, [steps - relay.const(1), relay.tanh(p)])
    body = relay.If(relay.greater(steps, relay.const(0)), again, p)
    layer = RecurrentLoop("rnn", "tanh").mark(relay.Function([steps, p], body, p.type_annotation))
    mod = tvm.IRModule({loop: layer, "main": relay.Function([X], relay.Call(loop, [relay.const(3), relay.exp(X)]) * X)})
    made = WidenFloat16()(InferType()(mod))
    assert str(made[loop].checked_type.ret_type) == "Tensor[(4, 6), float32]"
    assert operators(made["main"]).count("cast") == 2  # of x, and of the result


def test_what_is_not_concerned_is_the_same() -> None:
    x = v("x", 4, dtype="float32")
    before = module(relay.exp(x))
    assert WidenFloat16()(before)["main"].same_as(before["main"])
    foreign = relay.Function([X], relay.exp(relay.exp(X))).with_attr("Compiler", "other")
    mod = InferType()(tvm.IRModule({"main": foreign}))
    assert WidenFloat16()(mod)["main"].same_as(mod["main"])


def test_the_tables_name_operators() -> None:
    tables = ("_EXACT", "_INTERPOLATIONS", "_BROADCASTS", "_FILLS", "_OTHER_MOVES", "_CHECKS")
    assert [n for t in tables for n in getattr(widen_float16, t) if n not in REGISTRY] == []


def test_every_operator_keeps_its_type_in_a_program_of_float16() -> None:
    widened = 0
    for name, sample in SAMPLES.items():
        given = Given(dynamic=False)
        call = sample(given)
        body = relay.Function(given.params, call).body
        computed = {p: relay.negative(p) for p in given.params if p.type_annotation.dtype == "float32"}
        function = ElementTypeChange("float32", HALF).visit(relay.Function(given.params, relay.bind(body, computed)))
        try:
            before = InferType()(tvm.IRModule({"main": function}))
        except TypeCheckError:
            continue  # no operator of float16
        after_pass = InferType()(WidenFloat16()(before))["main"]
        assert tvm_ffi.structural_equal(after_pass.checked_type, before["main"].checked_type, True), name
        widened += not after_pass.same_as(before["main"])
    assert widened > 100


def test_it_runs_for_cpus_and_is_left_out_by_name() -> None:
    x = np.linspace(0.1, 3, 24).astype(HALF).reshape(4, 6)
    body = relay.log(relay.exp(X) * relay.const(np.array(3, HALF)))
    exact = np.log(np.exp(x.astype("float64")) * 3).astype(HALF)
    got, plain = (run(body, [X], x, disabled=disabled).numpy() for disabled in ((), ["WidenFloat16"]))
    np.testing.assert_array_equal(got, exact)
    assert (plain != exact).any()
    cuda, _ = vmkit.VMCompiler().optimize(module(body, X), "cuda -arch=sm_80")
    assert "cast" not in operators(cuda["main"])
