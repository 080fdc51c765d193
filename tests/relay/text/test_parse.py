"""What Relay text means."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from vmkit import relay
from vmkit.errors import ParseError
from vmkit.relay import Call, Constant, Let, Tuple, TupleGetItem, Var

HEADER = '#[version = "0.0.5"]\n'


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("1", 1, "int32"),
        ("-1", -1, "int32"),
        ("--1", 1, "int32"),
        ("2147483648", 2147483648, "int64"),
        ("1i8", 1, "int8"),
        ("1i16", 1, "int16"),
        ("9223372036854775807i64", 9223372036854775807, "int64"),
        ("1f", 1.0, "float32"),
        ("1.5e-3f", np.float32(1.5e-3), "float32"),
        ("3f16", 3.0, "float16"),
        ("0.1f64", 0.1, "float64"),
        ("inff", math.inf, "float32"),
        ("-inff", -math.inf, "float32"),
        ("True", True, "bool"),
        ("False", False, "bool"),
    ],
)
def test_literal(text: str, value: Any, dtype: str) -> None:
    constant = relay.parse_expr(text)
    assert (constant.data.dtype, constant.data.numpy().item()) == (dtype, value)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1 + 2 * 3", "add(1, multiply(2, 3))"),
        ("1 - 2 - 3", "subtract(subtract(1, 2), 3)"),
        ("1 * 2 + 3 / 4", "add(multiply(1, 2), divide(3, 4))"),
        ("1 + 2 <= 3 == True", "equal(less_equal(add(1, 2), 3), True)"),
        ("1 < = 2", "less_equal(1, 2)"),
        ("1 != 2 * 3", "not_equal(1, multiply(2, 3))"),
        ("(1 + 2) * 3", "multiply(add(1, 2), 3)"),
        ("1 > 2 >= 3", "greater_equal(greater(1, 2), 3)"),
    ],
)
def test_operators_bind_as_in_relay(text: str, same: str) -> None:
    assert tvm_ffi.structural_equal(relay.parse_expr(text), relay.parse_expr(same))


def test_graph_variable_is_the_node_itself() -> None:
    pair = relay.parse_expr("%0 = 1 + 2; (%0, %0)")
    assert pair.fields[0].same_as(pair.fields[1])


def test_sequence_is_a_let_of_a_variable_without_name() -> None:
    let = relay.parse_expr("(); 1")
    assert isinstance(let, Let)
    assert let.var.name_hint == ""


def test_let_hides_what_was_bound_before() -> None:
    outer = relay.parse_expr("let %x = 1; let %x = %x; %x")
    assert outer.body.value.same_as(outer.body.var)
    assert outer.body.body.same_as(outer.body.var)


def test_function_may_refer_to_its_own_name() -> None:
    let = relay.parse_expr("let %f = fn (%n: int32) -> int32 { %f(%n) }; %f(1)")
    assert let.value.body.op.same_as(let.var)


def test_brackets() -> None:
    assert isinstance(relay.parse_expr("(1)"), Constant)
    assert len(relay.parse_expr("()")) == 0
    assert len(relay.parse_expr("(1,)")) == 1
    assert len(relay.parse_expr("(1, 2,)")) == 2


def test_projection_and_curried_call() -> None:
    assert isinstance(relay.parse_expr("(1, 2).0"), TupleGetItem)
    call = relay.parse_expr("(fn (%x) { fn (%y) { %x } })(1)(2)")
    assert isinstance(call, Call) and isinstance(call.op, Call)


def test_names_may_hold_slashes_and_comments_nest() -> None:
    call = relay.parse_expr("free_var %base/x; /* a /* b */ c */ %base/x + %base/x // end")
    assert call.args[0].name_hint == "base/x"


def test_attributes_of_an_operator_have_defaults() -> None:
    assert relay.parse_expr("nn.softmax(1f)").attrs.axis == -1
    assert relay.parse_expr("nn.softmax(1f, axis=(2),)").attrs.axis == 2


def test_attributes_of_a_function() -> None:
    function = relay.parse_expr('fn (%x: int32, Primitive=1, Compiler="dnnl", shape=[1, 2], none=None) { %x }')
    assert dict(function.attrs.items())["Compiler"] == "dnnl"
    assert list(function.attrs["shape"]) == [1, 2]


def test_one_name_is_one_dimension_in_a_function() -> None:
    module = relay.parse(
        HEADER + "def @f(%x: Tensor[(n, 4), float32], %y: Tensor[(n), float32]) { (%x, %y) }\n"
        "def @g(%x: Tensor[(n), float32]) { %x }"
    )
    f, g = module["f"], module["g"]
    n = f.params[0].type_annotation.shape[0]
    assert n.same_as(f.params[1].type_annotation.shape[0])
    assert not n.same_as(g.params[0].type_annotation.shape[0])
    assert str(n.ty.dtype) == "int64"


def test_arithmetic_of_dimensions() -> None:
    function = relay.parse_expr("fn (%x: Tensor[(n * 4 + 1, 2 * 3, ? + 1, max(n, 1)), int8]) { %x }")
    shape = function.params[0].type_annotation.shape
    assert [relay.ir.dim_text(d) for d in shape] == ["n * 4 + 1", "6", "?", "max(n, 1)"]


@pytest.mark.parametrize(
    "text",
    [
        "int32",
        "float16x4",
        "bool",
        "Tensor[(1, ?, n), bfloat16]",
        "()",
        "(int32,)",
        "(int32, (bool, float32))",
        "fn () -> int32",
        "fn (int32, Tensor[(2), int8]) -> fn (bool) -> ()",
        "fn [A, B](A) -> B",
    ],
)
def test_type_is_printed_as_it_was_written(text: str) -> None:
    assert relay.ir.type_text(relay.parse_expr(f"free_var %x: {text}; %x").type_annotation) == text


def test_type_parameter_is_bound_in_its_function() -> None:
    function = relay.parse_expr("fn [A](%x: A) -> A { %x }")
    assert function.ret_type.same_as(function.type_params[0])


def test_spans_tell_where_a_node_stands() -> None:
    call = relay.parse_expr("1 +\n  nn.relu(2f)")
    assert (call.span.line, call.span.column, call.span.end_line, call.span.end_column) == (1, 1, 2, 14)
    relu = call.args[1]
    assert (relu.span.source_name.name, relu.span.line, relu.span.column) == ("string", 2, 3)


def test_fromtext_names_the_source() -> None:
    module = relay.fromtext(HEADER + "def @main(%x: int32) { %x }", "model.relay")
    assert module["main"].params[0].span.source_name.name == "model.relay"


def test_types_are_inferred() -> None:
    module = relay.parse(HEADER + "def @main(%x: Tensor[(?, 3), float32]) { nn.relu(%x) }")
    assert str(module["main"].ret_type) == "Tensor[(?, 3), float32]"


def test_function_may_call_one_that_is_defined_later() -> None:
    module = relay.parse(HEADER + "def @a(%x: int32) -> int32 { @b(%x) } def @b(%x: int32) -> int32 { @a(%x) }")
    assert sorted(g.name_hint for g in module.get_global_vars()) == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    ["(" * 10_000 + "1" + ")" * 10_000, "abs(" * 10_000 + "1f" + ")" * 10_000, "1" + " + 1" * 10_000],
    ids=["brackets", "calls", "operators"],
)
def test_deep_text_is_read(text: str) -> None:
    assert isinstance(relay.parse_expr(text), Call | Constant)


def test_text_that_is_nested_beyond_reason_is_refused() -> None:
    with pytest.raises(ParseError, match="string:1:20001: the text is nested more than 20000 levels deep"):
        relay.parse_expr("(" * 100_000)


def test_long_chain_of_bindings_is_read_and_printed() -> None:
    lines = "".join(f"  let %y{i} = %x;\n" for i in range(5000))
    module = relay.parse(f"{HEADER}def @main(%x: int32) {{\n{lines}  %x\n}}")
    assert relay.astext(module).count("let ") == 5000


def test_free_variable_belongs_to_the_whole_text() -> None:
    pair = relay.parse_expr("free_var %x: int32; (%x, fn () { %x })")
    assert isinstance(pair, Tuple) and isinstance(pair.fields[0], Var)
    assert pair.fields[1].body.same_as(pair.fields[0])


@pytest.mark.parametrize("name", ["int", "uint", "float"])
def test_a_number_type_without_a_size_has_32_bits(name: str) -> None:
    function = relay.parse(f"{HEADER}def @main(%x: {name}, %y: Tensor[(2), {name}]) {{ (%x, %y) }}")["main"]
    assert [p.type_annotation.dtype for p in function.params] == [f"{name}32"] * 2
