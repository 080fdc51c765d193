"""Dead code goes and equal expressions are merged; effects stay, as often and in the order that they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm

from tests.relay.programs import compiled
from tests.relay.transform.passes import after, assert_becomes, module, operators
from vmkit import relay
from vmkit.relay.analysis import effectful, effectful_globals
from vmkit.relay.transform import DeadCodeElimination, EliminateCommonSubexpr
from vmkit.relay.transform.common_subexpressions import without_common_subexpressions
from vmkit.relay.transform.dead_code_elimination import without_dead_code

C = relay.const


def scalar(name: str, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=(), dtype=dtype)


def test_unused_lets_go_and_used_ones_stay() -> None:
    a, b, x, y = scalar("a"), scalar("b"), scalar("x"), scalar("y")
    assert_becomes(DeadCodeElimination(), relay.Let(a, x, y), y, x, y)
    assert_becomes(DeadCodeElimination(), relay.Let(a, x, relay.Let(b, a + a, y)), y, x, y)
    kept = relay.Let(a, x + x, a + a)
    assert_becomes(DeadCodeElimination(), kept, kept, x)
    assert_becomes(DeadCodeElimination(), relay.Let(a, relay.Let(b, x, y), a + a), relay.Let(a, y, a + a), x, y)


def test_what_another_name_stands_for_is_used() -> None:
    a, b, x = scalar("a"), scalar("b"), scalar("x")
    program = relay.Let(a, x + x, relay.Let(b, a, b * b))
    assert_becomes(DeadCodeElimination(), program, program)
    assert_becomes(DeadCodeElimination(inline_once=True), program, relay.Let(b, x + x, b * b))


def recursive(body: Any) -> Any:
    f, n, data = relay.Var("f"), relay.var("n", "int32"), scalar("data")
    value = relay.If(relay.equal(n, C(0)), data, f(n - C(1), relay.log(data)))
    return relay.Let(f, relay.Function([n, data], value, relay.scalar_type("float32")), body(f))


def test_a_recursive_function_goes_only_when_nobody_calls_it() -> None:
    used = recursive(lambda f: f(C(2), C(10000.0)))
    assert_becomes(DeadCodeElimination(), used, used)
    assert_becomes(DeadCodeElimination(inline_once=True), used, used)
    assert_becomes(DeadCodeElimination(), recursive(lambda f: C(3.0)), C(3.0))


def test_what_is_used_once_is_put_there() -> None:
    a, b, x = scalar("a"), scalar("b"), scalar("x")
    before = relay.Let(a, x + x, relay.Let(b, relay.exp(a), b * x))
    assert_becomes(DeadCodeElimination(inline_once=True), before, relay.exp(x + x) * x)
    assert_becomes(DeadCodeElimination(), before, before)


def test_nothing_is_put_into_a_function_that_may_run_often() -> None:
    x, f, y, z = relay.Var("x"), relay.Var("f"), scalar("y", "int32"), relay.Var("z")

    def program(body: Any) -> Any:
        function = relay.Function([y], body)
        return relay.Let(x, C(1) + C(1), relay.Let(f, function, relay.Tuple([f(C(2)), f(C(3))])))

    assert_becomes(DeadCodeElimination(inline_once=True), program(relay.Let(z, y + y, x + z)), program(x + (y + y)))


def cell_program() -> Any:
    r, u, unused, a = (relay.Var(n) for n in ("r", "u", "unused", "a"))
    steps = relay.Let(u, relay.RefWrite(r, C(2)), relay.Let(a, relay.RefRead(r), a))
    return relay.Let(r, relay.RefCreate(C(1)), relay.Let(unused, C(5) + C(6), steps))


def names(expr: Any) -> list[str]:
    found = []
    while isinstance(expr, relay.Let):
        found.append(expr.var.name_hint)
        expr = expr.body
    return found


def test_effects_are_never_dead_unless_asked() -> None:
    program = cell_program()
    found = effectful(program)
    assert names(without_dead_code(program, found)) == ["r", "u", "a"]
    assert names(without_dead_code(program, found, inline_once=True)) == ["r", "u", "a"]
    assert names(without_dead_code(program, set())) == ["r", "a"]


def test_functions_have_the_effects_of_what_they_call() -> None:
    x, f, g, h = scalar("x", "int32"), relay.Var("f"), *(relay.GlobalVar(n) for n in "gh")
    writes = relay.Function([x], relay.Let(relay.Var("r"), relay.RefCreate(x), x))
    mod = tvm.IRModule({g: writes, h: relay.Function([x], relay.Call(g, [x])), "pure": relay.Function([x], x + x)})
    assert {v.name_hint for v in effectful_globals(mod)} == {"g", "h"}
    y = scalar("y", "int32")
    local = relay.Let(f, relay.Function([y], relay.Call(g, [y])), f(C(1)))
    assert local.body in effectful(local, effectful_globals(mod))
    assert local.value not in effectful(local, effectful_globals(mod))
    parameter = relay.Var("p")
    assert len(effectful(relay.Function([parameter], parameter(x)))) == 1


def test_equal_calls_are_one() -> None:
    x = relay.var("x", shape=(1, 16))

    def branch() -> Any:
        return relay.nn.relu(x) + C(1.0)

    got = after(EliminateCommonSubexpr(), branch() + branch(), x)
    assert operators(got) == ["nn.relu", "add", "add"]
    skipping = EliminateCommonSubexpr(lambda e: isinstance(e, relay.Call) and e.op.name == "add")
    assert operators(after(skipping, branch() + branch(), x)) == ["nn.relu", "add", "add", "add"]


def test_calls_that_differ_stay_apart() -> None:
    x = relay.var("x", shape=(2, 3))
    pairs = [
        (relay.sum(x, axis=0), relay.sum(x, axis=1, keepdims=False)),
        (x + C(1.0), x + C(2.0)),
        (x + C(0.0), x + C(-0.0)),
        (x - C(1.0), C(1.0) - x),
    ]
    for a, b in pairs:
        got = after(EliminateCommonSubexpr(), relay.Tuple([a, b]), x)
        assert not got.body.fields[0].same_as(got.body.fields[1])


def test_fields_of_one_tuple_are_one() -> None:
    x = relay.var("x", shape=(4,))
    parts = relay.split(x, 2)
    assert len(set(after(EliminateCommonSubexpr(), relay.Tuple([parts[0] + parts[0], parts[0]]), x).body.fields)) == 2


def test_branches_keep_what_only_they_compute() -> None:
    x, c = scalar("x"), scalar("c", "bool")
    apart = relay.If(c, relay.exp(x), relay.exp(x) + x)
    assert operators(after(EliminateCommonSubexpr(), apart, c, x)).count("exp") == 2
    around = relay.exp(x) + relay.If(c, relay.exp(x), x)
    assert operators(after(EliminateCommonSubexpr(), around, c, x)).count("exp") == 1
    got = after(EliminateCommonSubexpr(), around, c, x)
    run = compiled(list(got.params), got.body)
    np.testing.assert_allclose(run(np.bool_(True), np.float32(0.5)), 2 * np.exp(np.float32(0.5)), rtol=1e-6)


def test_cells_are_read_as_often_as_before() -> None:
    r = relay.Var("r")
    program = relay.Let(r, relay.RefCreate(C(1)), relay.RefRead(r) + relay.RefRead(r))
    reads = [
        n
        for n in relay.ir.post_order(without_common_subexpressions(relay.Function([], program)))
        if isinstance(n, relay.RefRead)
    ]
    assert len(reads) == 2


def test_types_of_the_result_are_there() -> None:
    x = scalar("x")
    cleaned = DeadCodeElimination()(module(relay.Let(scalar("a"), x, x + x)))
    assert str(cleaned["main"].checked_type.ret_type) == "float32"
