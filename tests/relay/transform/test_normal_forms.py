"""Normal forms: the same values, effects in order, nothing computed twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi

from tests.relay.programs import assert_same, compiled
from tests.relay.transform.passes import after, assert_becomes, module
from vmkit import relay
from vmkit.relay.analysis import Feature, check_basic_block_normal_form, detect_feature, well_formed
from vmkit.relay.transform import ToANormalForm, ToBasicBlockNormalForm, ToGraphNormalForm
from vmkit.relay.transform.a_normal_form import to_a_normal_form
from vmkit.relay.transform.basic_block_normal_form import to_basic_block_normal_form
from vmkit.relay.transform.graph_normal_form import to_graph_normal_form

C = relay.const


def scalar(name: str, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=(), dtype=dtype)


def lets(*bindings: tuple[relay.Var, Any], body: Any) -> Any:
    for variable, value in reversed(bindings):
        body = relay.Let(variable, value, body)
    return body


def test_a_normal_form_binds_in_the_order_of_evaluation() -> None:
    a, b, c, d, e = (relay.Var(n) for n in "abcde")
    before = C(1) + C(2) * C(3)
    expected = lets((a, C(1)), (b, C(2)), (c, C(3)), (d, b * c), (e, a + d), body=e)
    assert_becomes(ToANormalForm(), before, expected)


def test_a_normal_form_binds_within_branches() -> None:
    a, b, c, d = (relay.Var(n) for n in "abcd")
    expected = lets((c, C(True)), (d, relay.If(c, relay.Let(a, C(2), a), relay.Let(b, C(3), b))), body=d)
    assert_becomes(ToANormalForm(), relay.If(C(True), C(2), C(3)), expected)


def test_blocks_bind_what_branches_share_and_no_more() -> None:
    x, y, z = scalar("x", "bool"), scalar("y"), scalar("z")
    y2, z2 = y + y, z + z

    def program(y2: Any, z2: Any, bound: Any = None) -> Any:
        true_branch = relay.If(C(True), z2 + y2, C(3.0) + y2)
        if bound is not None:
            true_branch = relay.Let(y2, bound, true_branch)
        return relay.If(x, true_branch, relay.If(C(False), z2, C(1.0)))

    u, w = relay.Var("u"), relay.Var("w")
    assert_becomes(ToBasicBlockNormalForm(), program(y2, z2), relay.Let(w, z + z, program(u, w, y + y)), x, y, z)


def test_blocks_leave_a_graph_without_branches() -> None:
    x = scalar("x")
    y = x + x
    assert_becomes(ToBasicBlockNormalForm(), y * y, y * y)


def test_blocks_name_a_variable_by_its_last_name() -> None:
    x, y, u, w = (relay.Var(n) for n in "xyuw")
    before = lets((x, C(4.0)), (y, x), body=x)
    assert_becomes(ToBasicBlockNormalForm(), before, lets((u, C(4.0)), (w, u), body=w))


def programs() -> dict[str, tuple[list[relay.Var], Any]]:
    x, c = scalar("x"), scalar("c", "bool")
    shared = relay.exp(x)
    nested = relay.If(c, shared * x, relay.If(c, relay.sin(shared), relay.exp(shared) + shared))
    y, f, n, a = relay.Var("y"), relay.Var("f"), relay.var("n", "int32"), scalar("a")
    looping = relay.If(relay.equal(n, C(0)), a, f(n - C(1), a * shared))
    loop = relay.Function([n, a], looping, relay.scalar_type("float32"))
    inner = scalar("i")
    return {
        "straight": ([x], lets((y, x + x), body=y * relay.Let(relay.Var("z"), y, relay.sin(y)))),
        "branches": ([x, c], nested + x),
        "loop": ([x], relay.Let(f, loop, f(C(3), x) + shared)),
        "let in an operand": ([x], x + relay.Let(inner, relay.sin(x), inner * inner)),
        "tuple": ([x], relay.TupleGetItem(relay.Tuple([shared, shared + x]), 1)),
    }


@pytest.mark.sweep
@pytest.mark.parametrize("make", [ToANormalForm, ToBasicBlockNormalForm])
@pytest.mark.parametrize("name", programs())
def test_forms_keep_values_and_come_back(name: str, make: Any) -> None:
    params, body = programs()[name]
    run = make()
    formed = after(run, body, *params)
    assert well_formed(formed) and check_basic_block_normal_form(formed)
    if make is ToANormalForm:
        assert Feature.fGraph not in detect_feature(formed)
    values = [np.float32(0.7), np.bool_(False)][: len(params)]
    graph = ToGraphNormalForm()(module(formed))["main"]
    expected = compiled(params, body)(*values)
    for function in (formed, graph):
        assert_same(compiled(list(function.params), function.body)(*values), expected)


def test_graphs_have_no_lets_but_those_of_loops() -> None:
    for name, (params, body) in programs().items():
        graph = after(ToGraphNormalForm(), body, *params)
        assert (Feature.fLet in detect_feature(graph)) == (name == "loop"), name
    x = scalar("x")
    y = x + x
    assert tvm_ffi.structural_equal(
        ToGraphNormalForm()(ToANormalForm()(module(y * y)))["main"].body.op, module(y * y)["main"].body.op
    )
    assert_becomes(ToGraphNormalForm(), lets((v := relay.Var("v"), y), body=v * v), y * y)


def effects(*, bound: bool) -> Any:
    """Return a program that reads a cell, writes it, and reads it again: 1 + 2."""
    r = relay.Var("r")
    if bound:
        a, u, b = (relay.Var(n) for n in "aub")
        steps = [(r, relay.RefCreate(C(1))), (a, relay.RefRead(r)), (u, relay.RefWrite(r, C(2))), (b, relay.RefRead(r))]
        return lets(*steps, body=a + b)
    written = relay.TupleGetItem(relay.Tuple([relay.RefRead(r), relay.RefWrite(r, C(2))]), 0)
    return relay.Let(r, relay.RefCreate(C(1)), written + relay.RefRead(r))


def order(expr: Any) -> list[str]:
    """Return the kinds of the effects of a program in the order of evaluation."""
    return [type(n).__name__ for n in relay.ir.post_order(expr) if type(n).__name__.startswith("Ref")]


@pytest.mark.parametrize("form", [to_a_normal_form, to_basic_block_normal_form, to_graph_normal_form])
@pytest.mark.parametrize("bound", [True, False])
def test_effects_stay_in_order(form: Any, bound: bool) -> None:
    program = effects(bound=bound)
    assert order(form(program)) == order(program) == ["RefCreate", "RefRead", "RefWrite", "RefRead"]


def test_the_order_of_effects_is_written_down_by_bindings() -> None:
    for form in (to_a_normal_form, to_basic_block_normal_form):
        values = []
        node = form(effects(bound=False))
        while isinstance(node, relay.Let):
            values.append(type(node.value).__name__)
            node = node.body
        assert [v for v in values if v.startswith("Ref")] == ["RefCreate", "RefRead", "RefWrite", "RefRead"]


def test_clauses_of_a_match_are_scopes() -> None:
    option = relay.GlobalTypeVar("Option")
    some = relay.Constructor("Some", [relay.TypeVar("A")], option)
    x, y, data = scalar("x"), scalar("y"), relay.Var("data")
    shared = relay.exp(x)
    clauses = [
        relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(y)]), shared + y),
        relay.Clause(relay.PatternWildcard(), shared * shared),
    ]
    match = relay.Match(data, clauses)
    assert not check_basic_block_normal_form(relay.Function([data, x], match))
    for form in (to_a_normal_form, to_basic_block_normal_form):
        formed = form(relay.Function([data, x], match))
        assert well_formed(formed) and check_basic_block_normal_form(formed)
        assert formed.body.value.op.name == "exp"


def test_a_chain_of_ten_thousand_operators() -> None:
    x = scalar("x")
    y: Any = x
    for _ in range(10_000):
        y = relay.exp(y)
    formed = to_a_normal_form(relay.Function([x], y))
    count, node = 0, formed.body
    while isinstance(node, relay.Let):
        count, node = count + 1, node.body
    assert count == 10_000


def test_a_kernel_is_bound_right_before_its_call_and_stays_as_it_is() -> None:
    x, p = scalar("x"), scalar("p")
    first, second = (relay.Function([p], relay.exp(relay.tanh(p)), attrs={"Primitive": 1}) for _ in range(2))
    let = after(ToANormalForm(), second(first(x)), x).body
    kinds = []
    while isinstance(let, relay.Let):
        kinds.append(type(let.value))
        if isinstance(let.value, relay.Function):
            assert Feature.fLet not in detect_feature(let.value)
        let = let.body
    assert kinds == [relay.Function, relay.Call, relay.Function, relay.Call]
