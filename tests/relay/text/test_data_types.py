"""Data types, matches and references in Relay text: what they mean, and that they are printed as Relay printed them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tvm_ffi

from vmkit import relay
from vmkit.errors import ParseError
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
    VirtualDevice,
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


def test_definitions_belong_to_the_module() -> None:
    mod = read_module(HEADER + "type B { Y(A) } type A { X } extern type C[T]")
    assert sorted(relay.ir.type_definitions(mod)) == ["A", "B", "C"]


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


@pytest.mark.parametrize(
    "text",
    [
        "type Empty {\n  \n}\n",
        "type nat {\n  zero,\n  succ(nat[]),\n}\n\ndef @f(%x: nat[], %y: ref((nat[],))) {\n  succ(%x)\n}\n",
        "type A[T, U] {\n  X(fn (T) -> U, Tensor[(?, 2), float32]),\n}\n\ntype B {\n  Y(A[B[], ()]),\n}\n",
        "type T {\n  P(int32, T[]),\n}\n\ndef @f(%t: T[]) {\n"
        "  %1 = match? (%t) {\n    P(%i: int32, %u: T[]) => {\n"
        "      %0 = P(%i, %u);\n      P(%i, %0)\n    },\n    _ => {\n      %t\n    },\n  };\n  (%1, %1)\n}\n",
        "def @f(%x: int32) {\n  %0 = ref(%x);\n  %1 = ref_write(%0, %x);\n  %2 = ref_read(%0);\n  (%1, %2)\n}\n",
        "def @f(%x: (int32, (int32,))) {\n  match (%x) {\n    (%y, (%x1)) => {\n      %x1\n    },\n  }\n}\n",
        "def @f(%x: int32) {\n  match (%x) {\n    \n  }\n}\n",
    ],
    ids=["no-constructors", "no-parameters", "parameters", "match", "references", "tuples", "no-clauses"],
)
def test_module_is_printed_as_it_was_written(text: str) -> None:
    mod = read_module(HEADER + text)
    assert relay.astext(mod, show_spans=False) == HEADER + text
    assert tvm_ffi.structural_equal(read_module(relay.astext(mod)), mod)


def test_type_definitions_and_functions_are_sorted() -> None:
    text = relay.astext(read_module(HEADER + "def @b() { 1 } type Z { z } def @a() { 1 } extern type Y[T]"))
    assert [line for line in text.split("\n") if line[:3] in ("typ", "def")] == [
        "type Y[T] {",
        "type Z {",
        "def @a() {",
        "def @b() {",
    ]


def test_let_that_is_a_value_may_stand_without_brackets() -> None:
    let = relay.parse_expr("let %a = let %b = 1; %0 = %b + 2; let %c = %0; %c; %a")
    assert let.var.name_hint == "a" and let.body.same_as(let.var)
    inner = let.value
    assert (inner.var.name_hint, inner.body.var.name_hint) == ("b", "c")
    assert inner.body.body.same_as(inner.body.var)


def test_text_may_use_and_replace_what_a_module_defines() -> None:
    init = read_module(LIST + "def @one() { 1 } def @two() { @one() }")
    mod = relay.parse(HEADER + "def @two() { @one() } def @three() { @two() }", init_module=init)
    assert sorted(g.name_hint for g in mod.functions) == ["one", "three", "two"]
    assert list(relay.ir.type_definitions(mod)) == ["List"]
    assert not mod["two"].same_as(init["two"])
    assert mod["two"].body.op.same_as(init.get_global_var("one"))


def test_text_may_add_types_to_those_of_a_module_which_stays_as_it_was() -> None:
    init = read_module(LIST)
    mod = read_module(HEADER + "type Box { Full(List[Box]) } def @f() { Full(Nil) }", init_module=init)
    assert sorted(relay.ir.type_definitions(mod)) == ["Box", "List"]
    assert list(relay.ir.type_definitions(init)) == ["List"]


def test_text_must_not_define_a_constructor_of_the_module_again() -> None:
    with pytest.raises(
        ParseError, match="from_string:1:31: constructor Nil is defined twice; type List has it already"
    ):
        read_module('#[version = "0.0.5"] type B { Nil }', init_module=read_module(LIST))


def test_nodes_of_the_metadata_given_follow_those_of_the_text() -> None:
    first, second = relay.const([1.0]), relay.const([2.0])
    text = relay.astext(
        read_module(HEADER + "def @f() { meta[relay.Constant][0] }", init_meta_table={"relay.Constant": [first]})
    )
    both = text.replace("meta[relay.Constant][0]", "(meta[relay.Constant][0], meta[relay.Constant][1])")
    fields = read_module(both, init_meta_table={"relay.Constant": [second]})["f"].body.fields
    assert [c.data.numpy().tolist() for c in fields] == [[1.0], [2.0]]
    with pytest.raises(ParseError, match=r"the metadata holds 1 of 'relay.Constant', so index 1 is out of bounds"):
        read_module(both)


def test_virtual_devices_of_parameters_and_results_are_attributes() -> None:
    text = (
        HEADER
        + "def @f(%x {virtual_device=meta[VirtualDevice][0]}: int32, virtual_device=meta[VirtualDevice][1]) { %x }"
    )
    mod = read_module(text, init_meta_table={"VirtualDevice": [VirtualDevice(2, 0), VirtualDevice(-1, -1)]})
    assert str(mod["f"].params[0].type_annotation) == "int32"
    # One that may be any says nothing.
    assert {key: [str(d) for d in value] for key, value in mod["f"].attrs.items()} == {
        "param_virtual_devices": ["cuda"]
    }


def test_virtual_device_of_the_metadata_is_read() -> None:
    nodes = [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["VirtualDevice"], "data": [2]},
        {"type_key": "Array", "data": [3]},
        {
            "type_key": "VirtualDevice",
            "attrs": {"device_type_int": "-1", "memory_scope": "4", "target": "0", "virtual_device_id": "-1"},
        },
        {"type_key": "runtime.String"},
    ]
    section = json.dumps({"root": 1, "nodes": nodes})
    text = f"{HEADER}def @f(%x {{virtual_device=meta[VirtualDevice][0]}}) {{ %x }}\n#[metadata]\n{section}"
    assert len(read_module(text)["f"].params) == 1


@pytest.mark.parametrize(
    ("braces", "reason"),
    [
        ("{}", "2:11: expected {virtual_device=meta[VirtualDevice][...]} after a parameter"),
        ("{axis=1}", "2:11: expected {virtual_device=meta[VirtualDevice][...]} after a parameter"),
        ("{virtual_device=1}", "2:27: expected a VirtualDevice of the metadata as the virtual_device of parameter %x"),
    ],
)
def test_what_is_no_virtual_device_is_refused(braces: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_module(f"{HEADER}def @f(%x {braces}) {{ %x }}")
    assert reason in str(caught.value)
