"""Data types, matches and references in Relay text: what they mean, and that they are printed as Relay printed them."""

from __future__ import annotations

from typing import Any

import pytest

from vmkit import relay
from vmkit.relay import (
    Call,
    Constructor,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefType,
    RefWrite,
    TypeCall,
)
from vmkit.relay.text.parser import read_module

HEADER = '#[version = "0.0.5"]\n'
LIST = HEADER + "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n"


def _body(text: str) -> Any:
    return read_module(f"{LIST}\ndef @main(%xs: List[int32]) {{\n  {text}\n}}")["main"].body


def test_definition_gives_constructors_with_tags_in_order() -> None:
    data = relay.ir.find_type(read_module(LIST), "List")
    cons, nil = data.constructors
    assert [c.name_hint for c in (cons, nil)] == ["Cons", "Nil"]
    assert nil.tag == cons.tag + 1
    assert cons.inputs[0].same_as(data.type_vars[0])
    assert str(cons.inputs[1]) == "List[A]"


def test_definitions_keep_their_order_in_the_module() -> None:
    mod = read_module(HEADER + "type B { Y(A) } type A { X } extern type C[T]")
    assert list(relay.ir.type_definitions(mod)) == ["B", "A", "C"]


def test_type_may_be_used_before_its_definition() -> None:
    mod = read_module(HEADER + "def @f(%x: Late[int32]) { %x } type Late[T] { Lately(T) }")
    assert str(mod["f"].params[0].type_annotation) == "Late[int32]"


@pytest.mark.parametrize("text", ["nat", "nat[]"])
def test_type_without_parameters_is_called_with_no_arguments(text: str) -> None:
    mod = read_module(f"{HEADER}type nat {{ zero }} def @f(%x: {text}) {{ %x }}")
    annotation = mod["f"].params[0].type_annotation
    assert isinstance(annotation, TypeCall) and len(annotation.args) == 0
    assert str(annotation) == "nat[]"


@pytest.mark.parametrize("text", ["Nil", "Nil()", "(Nil)"])
def test_constructor_without_fields_is_called(text: str) -> None:
    call = _body(text)
    assert isinstance(call, Call) and isinstance(call.op, Constructor) and len(call.args) == 0


def test_constructor_with_fields_may_be_passed_around() -> None:
    assert isinstance(_body("Cons"), Constructor)
    assert _body("Cons(1, Nil)").args[1].op.name_hint == "Nil"


def test_constructor_hides_the_operator_of_its_name() -> None:
    mod = read_module(HEADER + "type T { abs(int32) } def @f(%x: int32) { abs(%x) }")
    assert isinstance(mod["f"].body.op, Constructor)


def test_patterns() -> None:
    match = _body("match? (((%xs, 1), %xs)) { ((Cons(%x: int32, _), %n), Nil) => %x, _ => %xs, (%z) => %z }")
    assert isinstance(match, Match) and not match.complete
    pattern, wildcard, single = (clause.lhs for clause in match.clauses)
    assert isinstance(pattern, PatternTuple) and isinstance(wildcard, PatternWildcard)
    assert isinstance(single, PatternTuple) and isinstance(single.patterns[0], PatternVar)
    inner, nil = pattern.patterns
    assert isinstance(nil, PatternConstructor) and nil.constructor.name_hint == "Nil"
    cons, n = inner.patterns
    assert n.var.name_hint == "n"
    assert str(cons.patterns[0].var.type_annotation) == "int32"
    assert match.clauses[0].rhs.same_as(cons.patterns[0].var)


def test_pattern_variable_hides_the_variable_outside_its_clause_only() -> None:
    match = _body("match (%xs) { Cons(_, %xs) => %xs, Nil => %xs }")
    first, second = match.clauses
    assert first.rhs.same_as(first.lhs.patterns[1].var)
    assert second.rhs.same_as(match.data)


@pytest.mark.parametrize("data", ["(%xs)", "%xs", "(%xs, 1).0", "meta[relay.Constant][0]"])
def test_matched_value_is_an_atom_or_a_projection(data: str) -> None:
    mod = read_module(
        f"{LIST} def @main(%xs: List[int32]) {{ match {data} {{ _ => () }} }}",
        init_meta_table={"relay.Constant": [relay.const(1.0)]},
    )
    assert isinstance(mod["main"].body, Match)


def test_match_may_be_bound_and_used_like_any_expression() -> None:
    body = _body("%0 = match (%xs) { _ => 1 }; let %y = match (%xs) { _ => 2 }; %0 + %y")
    assert isinstance(body.value, Match) and isinstance(body.body.args[0], Match)


def test_references() -> None:
    function = relay.parse_expr("fn (%r: ref((int32, ref(bool)))) { ref_write(ref(ref_read(%r)), (1, ref(True))) }")
    assert isinstance(function.params[0].type_annotation, RefType)
    write = function.body
    assert isinstance(write, RefWrite) and isinstance(write.ref, RefCreate) and isinstance(write.ref.value, RefRead)
    assert isinstance(write.value.fields[1], RefCreate)


def test_spans_of_data_types_and_references() -> None:
    body = _body("match (%xs) {\n _ => ref(ref_read(\n%xs)) }")
    assert (body.span.line, body.span.column, body.span.end_line, body.span.end_column) == (8, 3, 10, 8)
    created = body.clauses[0].rhs
    assert (created.span.line, created.span.column) == (9, 7)
    assert (created.value.span.line, created.value.span.column) == (9, 11)
    cons = _body("Cons").span
    assert (cons.line, cons.column, cons.end_column) == (3, 3, 19)


def test_module_without_data_types_has_no_record_of_any() -> None:
    assert len(read_module(HEADER + "def @f() { 1 }").global_infos) == 0
