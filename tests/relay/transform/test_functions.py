"""Passes about functions: inlining, names as values, functions nobody reaches, functions that users write."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
import tvm_ffi

from vmkit import relay
from vmkit.errors import ModelError, OptionError
from vmkit.relay.transform import (
    DefuseOps,
    EtaExpand,
    InferType,
    Inline,
    RemoveUnusedFunctions,
    function_pass,
)
from vmkit.relay.transform.eta_expand import _expanded, _of_constructor

SHAPE = (3, 5)


def v(name: str) -> relay.Var:
    return relay.var(name, shape=SHAPE)


def inline(function: relay.Function, **attrs: Any) -> relay.Function:
    made = function.with_attr("Inline", 1)
    for name, value in attrs.items():
        made = made.with_attr(name, value)
    return made


def call(function: Any, *args: Any) -> relay.Call:
    return relay.Call(function, args)


def names(mod: tvm.IRModule) -> list[str]:
    return sorted(g.name_hint for g in mod.functions)


def assert_same(got: Any, expected: Any) -> None:
    assert tvm_ffi.structural_equal(got, expected), f"got\n{got}\nexpected\n{expected}"


def test_marked_functions_are_inlined_through_each_other() -> None:
    g1, g11, g2 = (relay.GlobalVar(n) for n in ("g1", "g11", "g2"))
    a, b, c, d, e = (v(n) for n in "abcde")
    p, q = v("p"), v("q")
    mod = tvm.IRModule(
        {
            g11: inline(relay.Function([a], a)),
            g1: inline(relay.Function([b, c], b + c + call(g11, b))),
            g2: relay.Function([d, e], d - e),
            "main": relay.Function([p, q], call(g1, p, q) * call(g2, q, p)),
        }
    )
    got = Inline()(mod)
    assert names(got) == ["g2", "main"]
    expected = InferType()(
        tvm.IRModule({"main": relay.Function([p, q], (p + q + p) * call(g2, q, p)), g2: relay.Function([d, e], d - e)})
    )
    assert_same(got["main"], expected["main"])


def test_recursive_functions_are_not_inlined() -> None:
    f, i, j = relay.GlobalVar("f"), relay.var("i", "int32"), relay.var("j", "int32")
    body = relay.If(relay.equal(i, relay.const(0)), i, call(f, i - relay.const(1)))
    mod = tvm.IRModule(
        {f: inline(relay.Function([i], body, relay.scalar_type("int32"))), "main": relay.Function([j], call(f, j))}
    )
    assert names(Inline()(mod)) == ["f", "main"]


def test_functions_for_another_compiler_are_called_where_they_were() -> None:
    g, x, p = relay.GlobalVar("g"), v("x"), v("p")
    mod = tvm.IRModule(
        {g: inline(relay.Function([x], x + x), Compiler="a"), "main": relay.Function([p], call(g, p) * call(g, p))}
    )
    got = Inline()(mod)
    assert names(got) == ["main"]
    left, right = got["main"].body.args
    assert left.op.attrs["Compiler"] == "a"
    assert not left.op.same_as(right.op) and relay.analysis.well_formed(got["main"])


def test_arguments_with_effects_are_evaluated_once_and_first() -> None:
    from vmkit.relay.analysis import effectful
    from vmkit.relay.transform.inline import _applied

    x, y, r = v("x"), v("y"), relay.Var("r")
    effect = relay.RefRead(r)
    body = _applied(relay.Function([x, y], y * y), [effect, v("z")], effectful(effect))
    assert body.value.same_as(effect) and relay.analysis.well_formed(body)


def test_global_functions_as_values_become_functions() -> None:
    aux, x = relay.GlobalVar("aux"), relay.var("x", "int32")
    mod = tvm.IRModule(
        {
            aux: relay.Function([x], x + relay.const(1)),
            "main": relay.Function([], relay.Tuple([aux, call(aux, relay.const(1))])),
        }
    )
    got = EtaExpand(expand_global_var=True)(mod)["main"].body
    assert isinstance(got.fields[0], relay.Function) and got.fields[0].body.op.same_as(aux)
    assert got.fields[1].op.same_as(aux)
    assert_same(EtaExpand()(mod)["main"], InferType()(mod)["main"])


def test_constructors_as_values_become_functions() -> None:
    a, name = relay.TypeVar("A"), relay.GlobalTypeVar("List")
    cons, nil = relay.Constructor("Cons", [a, name(a)], name), relay.Constructor("Nil", [], name)
    mod = tvm.IRModule({})
    relay.define_type(mod, relay.TypeData(name, [a], [cons, nil]))
    function = relay.Function([], relay.Tuple([cons, cons(relay.const(1), nil())]))
    got = _expanded(function, lambda n: _of_constructor(n, mod) if isinstance(n, relay.Constructor) else n).body
    assert isinstance(got.fields[0], relay.Function)
    assert str(got.fields[0].ret_type) == "List[A]" and len(got.fields[0].params) == 2
    assert got.fields[1].op.same_as(cons)


def test_functions_nobody_reaches_are_removed() -> None:
    x = v("x")
    a, b, c = (relay.GlobalVar(n) for n in "abc")
    mod = tvm.IRModule(
        {
            a: relay.Function([x], call(b, x)),
            b: relay.Function([v("y")], relay.const(1.0)),
            c: relay.Function([], relay.const(2)),
            "main": relay.Function([], call(c)),
        }
    )
    assert names(RemoveUnusedFunctions()(mod)) == ["c", "main"]
    assert names(RemoveUnusedFunctions(["a", "main"])(mod)) == ["a", "b", "c", "main"]
    with pytest.raises(ModelError, match="no function 'mian'; did you mean 'main'"):
        RemoveUnusedFunctions(["mian"])(mod)


def test_fused_functions_become_their_operators() -> None:
    x, p = v("x"), v("p")
    fused = relay.Function([x], relay.exp(x) + x).with_attr("Primitive", 1)
    got = DefuseOps()(tvm.IRModule({"main": relay.Function([p], fused(p))}))["main"]
    assert_same(got, InferType()(tvm.IRModule({"main": relay.Function([p], relay.exp(p) + p)}))["main"])


def test_users_write_passes_as_functions_and_classes() -> None:
    x = v("x")
    mod = tvm.IRModule({"main": relay.Function([x], x), "other": relay.Function([v("y")], relay.const(1.0))})

    @function_pass(opt_level=1)
    def doubled(function: Any, module: Any, context: Any) -> Any:
        return relay.Function(list(function.params), function.body + function.body)

    @function_pass(opt_level=2, required=["InferType"])
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def transform_function(self, function: Any, module: Any, context: Any) -> Any:
            return relay.Function(list(function.params), function.body * relay.const(self.factor))

    assert (doubled.info.name, doubled.info.opt_level) == ("doubled", 1)
    assert str(doubled(mod)["main"].body.op.name) == "add"
    assert Scaled(3.0)(mod)["other"].body.args[1].data.numpy() == 3
    seen = relay.transform.Sequential([doubled, Scaled(2.0)])
    with relay.transform.PassContext(opt_level=1):
        assert seen(mod)["main"].body.op.name == "add"
    with pytest.raises(OptionError, match="'InferTipe' is not known; did you mean 'InferType'"):
        function_pass(lambda f, m, c: f, opt_level=0, name="p", required=["InferTipe"])


def test_functions_to_be_left_alone_are() -> None:
    x = v("x")
    kept = relay.Function([x], relay.Let(v("a"), x, x)).with_attr("SkipOptimization", 1)
    mod = InferType()(tvm.IRModule({"main": kept}))
    assert_same(relay.transform.DeadCodeElimination()(mod)["main"], mod["main"])
