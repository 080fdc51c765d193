"""Questions about programs: variables, scopes, kinds, coverage of matches, features."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from vmkit import relay
from vmkit.errors import ModelError, TypeCheckError
from vmkit.relay import analysis
from vmkit.relay.analysis import Feature, unmatched_cases, well_formed
from vmkit.relay.analysis.scopes import hoisted
from vmkit.relay.transform import infer_expr

C = relay.const


def v(name: str, dtype: str = "float32") -> relay.Var:
    return relay.var(name, shape=(), dtype=dtype)


def test_variables_in_order_of_first_use() -> None:
    x, y, z, a = (v(n) for n in "xyza")
    expr = relay.Let(a, y + x, a * z)
    assert analysis.free_vars(expr) == [y, x, z]
    assert analysis.bound_vars(expr) == [a]
    assert analysis.all_vars(expr) == [a, y, x, z]
    function = relay.Function([x], expr)
    assert analysis.free_vars(function) == [y, z] and analysis.bound_vars(function) == [x, a]
    pattern = relay.PatternTuple([relay.PatternVar(x), relay.PatternVar(y)])
    assert analysis.bound_vars(pattern) == [x, y]
    match = relay.Match(z, [relay.Clause(pattern, x + y + a)])
    assert analysis.free_vars(match) == [z, a] and analysis.bound_vars(match) == [x, y]


def test_type_variables() -> None:
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    x = relay.Var("x", relay.TupleType([a, relay.FuncType([b], b, [b])]))
    function = relay.Function([x], x, a, [a])
    assert analysis.all_type_vars(x) == [a, b] or set(analysis.all_type_vars(x)) == {a, b}
    assert analysis.free_type_vars(x) == [a] and analysis.bound_type_vars(x) == [b]
    assert analysis.free_type_vars(function) == [] and set(analysis.bound_type_vars(function)) == {a, b}
    assert analysis.free_type_vars(relay.TypeCall(relay.GlobalTypeVar("L"), [a])) == [a]


def test_every_variable_is_bound_once_and_used_in_its_scope() -> None:
    x, t = v("x"), relay.Var("t")
    once = relay.Let(x, C(10.0), x)
    assert well_formed(once) and well_formed(relay.Tuple([once, once])) and well_formed(relay.TupleGetItem(t, 0))
    assert not well_formed(relay.Let(x, C(10.0), once))
    assert not well_formed(relay.Tuple([once, relay.Let(x, C(1.0), x)]))
    assert not well_formed(relay.Tuple([once, x]))
    assert not well_formed(relay.Let(x, x, x))
    f, n = relay.Var("f"), v("n", "int32")
    assert well_formed(relay.Let(f, relay.Function([n], f(n)), f(C(1))))
    assert not well_formed(tvm.IRModule({"main": relay.Function([x], once)}))
    _, some, _ = option()
    bound = relay.Clause(relay.PatternConstructor(some, [relay.PatternVar(x)]), x)
    assert well_formed(relay.Match(t, [bound]))
    assert not well_formed(relay.Match(t, [bound, relay.Clause(relay.PatternVar(x), x)]))


def option() -> tuple[tvm.IRModule, relay.Constructor, relay.Constructor]:
    a, name = relay.TypeVar("A"), relay.GlobalTypeVar("Option")
    some, none = relay.Constructor("Some", [a], name), relay.Constructor("None", [], name)
    mod = tvm.IRModule({})
    relay.define_type(mod, relay.TypeData(name, [a], [some, none]))
    return mod, some, none


def lists() -> tuple[tvm.IRModule, relay.Constructor, relay.Constructor]:
    a, name = relay.TypeVar("A"), relay.GlobalTypeVar("List")
    cons, nil = relay.Constructor("Cons", [a, name(a)], name), relay.Constructor("Nil", [], name)
    mod = tvm.IRModule({})
    relay.define_type(mod, relay.TypeData(name, [a], [cons, nil]))
    return mod, cons, nil


def text(pattern: Any) -> str:
    if isinstance(pattern, relay.PatternWildcard):
        return "_"
    parts = ", ".join(text(p) for p in pattern.patterns)
    name = pattern.constructor.name_hint if isinstance(pattern, relay.PatternConstructor) else ""
    return f"{name}({parts})"


def uncovered(mod: tvm.IRModule | None, *patterns: Any) -> list[str]:
    data = relay.Var("data")
    return [text(p) for p in unmatched_cases(relay.Match(data, [relay.Clause(p, data) for p in patterns]), mod)]


def test_cases_that_a_match_leaves_out() -> None:
    mod, cons, nil = lists()
    any_ = relay.PatternWildcard()

    def Cons(head: Any, tail: Any) -> Any:
        return relay.PatternConstructor(cons, [head, tail])

    Nil = relay.PatternConstructor(nil, [])
    assert uncovered(None) == ["_"]
    assert uncovered(None, any_) == [] and uncovered(None, relay.PatternVar(v("w"))) == []
    assert sorted(uncovered(mod, Cons(any_, Cons(any_, any_)))) == ["Cons(_, Nil())", "Nil()"]
    assert uncovered(mod, Cons(any_, Cons(any_, any_)), any_) == []
    two_or_more = Cons(any_, Cons(any_, any_))
    assert uncovered(mod, Cons(any_, Nil), Nil, two_or_more) == []
    three_or_more = Cons(any_, two_or_more)
    assert uncovered(mod, Cons(any_, Nil), Nil, three_or_more) == ["Cons(_, Cons(_, Nil()))"]
    pair = relay.PatternTuple([Nil, relay.PatternVar(v("b"))])
    assert uncovered(mod, pair) == ["(Cons(_, _), _)"]
    assert uncovered(None, relay.PatternTuple([any_, any_])) == []
    assert uncovered(mod, relay.PatternConstructor(cons), Nil) == []
    with pytest.raises(ModelError, match="pass the module"):
        uncovered(None, Nil)


def test_kinds() -> None:
    mod, _, _ = option()
    tensor, shape = relay.TensorType((1, 2)), relay.TypeVar("s", relay.Kind.Shape)
    a = relay.TypeVar("a")
    name = relay.GlobalTypeVar("Option")
    kinds = {
        "Type": [tensor, a, relay.TupleType([tensor, a]), relay.FuncType([a], tensor, [a]), relay.RefType(tensor)],
        "Shape": [shape, relay.IncompleteType(relay.Kind.Shape)],
        "AdtHandle": [name],
    }
    for kind, types in kinds.items():
        for ty in types:
            assert analysis.check_kind(ty) == getattr(relay.Kind, kind)
    assert analysis.check_kind(name(tensor), mod) == relay.Kind.Type
    assert analysis.check_kind(relay.find_type(mod, "Option"), mod) == relay.Kind.TypeData
    for wrong in (relay.TupleType([shape]), relay.FuncType([shape], tensor), relay.RefType(shape), name(shape)):
        with pytest.raises(TypeCheckError, match="is of kind Shape, where a Type is needed"):
            analysis.check_kind(wrong)
    with pytest.raises(TypeCheckError, match="which is no data type"):
        analysis.check_kind(relay.TypeCall(a, [tensor]))
    with pytest.raises(TypeCheckError, match="Option takes 1 type arguments, got 2"):
        analysis.check_kind(name(tensor, tensor), mod)
    with pytest.raises(ModelError, match="no type 'Other'"):
        analysis.check_kind(relay.GlobalTypeVar("Other")(tensor), mod)


def test_blocks() -> None:
    c, x = v("c", "bool"), v("x")
    shared = x + C(1.0)
    assert analysis.check_basic_block_normal_form(shared * shared)
    branches = relay.If(c, shared, shared * x)
    assert not analysis.check_basic_block_normal_form(relay.Function([c, x], branches))
    assert not analysis.check_basic_block_normal_form(relay.If(c, x, x + x))
    s = v("s")
    assert analysis.check_basic_block_normal_form(relay.Let(s, x, relay.If(c, s, s + s)))
    y, z = v("y"), v("z")
    closures = relay.Tuple([relay.Function([y], shared + y), relay.Function([z], shared + z)])
    assert not analysis.check_basic_block_normal_form(relay.Function([x], closures))


def test_features() -> None:
    x, f = v("x"), relay.Var("f")
    assert analysis.detect_feature(x) == {Feature.fVar}
    y = relay.exp(x)
    found = analysis.detect_feature(relay.Function([x], y * y))
    assert found == {Feature.fVar, Feature.fFunction, Feature.fOp, Feature.fCall, Feature.fGraph}
    loop = relay.Let(f, relay.Function([x], f(x)), f(C(1.0)))
    assert Feature.fLetRec in analysis.detect_feature(loop)
    assert analysis.detect_feature(tvm.IRModule({"main": relay.Function([], C(1))})) == {
        Feature.fFunction,
        Feature.fConstant,
    }
    assert Feature.fRefRead in analysis.detect_feature(relay.RefRead(relay.RefCreate(C(1))))


def test_counts_constants_and_data_types() -> None:
    x = relay.var("x", shape=(2, 2))
    dense = relay.nn.dense(relay.nn.relu(relay.nn.dense(x, x)), x)
    assert analysis.count_layers(dense + x, ["nn.dense"]) == 2
    assert analysis.count_layers(dense, ["nn.conv2d"]) == 0
    assert analysis.check_constant(relay.Tuple([C(1), C(2.0)])) and not analysis.check_constant(relay.Tuple([x]))
    expr = relay.cast(x, "int8")
    infer_expr(expr)
    assert analysis.all_dtypes(expr) == {"float32", "int8"}
    seen: list[Any] = []
    analysis.post_order_visit(x + x, seen.append)
    assert [type(n).__name__ for n in seen] == ["Op", "Var", "Call"]


def test_calls_of_operators_are_counted_over_all_functions() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    mod = tvm.IRModule({"main": relay.Function([x], relay.exp(shared) + shared), "f": relay.Function([x], x + x)})
    assert relay.analysis.list_op_freqs(mod) == {"exp": 2, "add": 2}


def test_what_scopes_share_with_and_without_those_of_functions() -> None:
    c, x = relay.var("c", "bool"), relay.var("x", "float32")
    inside, both = relay.exp(x), relay.tanh(x)
    closure = relay.Function([], inside + both)
    branches = relay.If(c, both + inside, both)
    body = relay.Tuple([relay.Call(closure, []), branches])
    assert hoisted(body) == {closure: [inside, both], branches: [inside, both]}
    # A function that is compiled by itself shares nothing with the place where it is made.
    assert hoisted(body, enter_functions=False) == {branches: [both]}


def test_a_function_type_has_the_type_variables_that_it_binds() -> None:
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    ty = relay.FuncType([b], b, [a])
    assert (analysis.all_type_vars(ty), analysis.bound_type_vars(ty), analysis.free_type_vars(ty)) == ([a, b], [a], [b])
