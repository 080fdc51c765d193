"""What the parser says of text that is wrong: where, what, and what was meant."""

from __future__ import annotations

import pytest

from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError

HEADER = '#[version = "0.0.5"]\n'
MATCH = HEADER + "type A { P(int32, A) } def @f(%a: A) { match (%a) "


def _refused(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        relay.parse(text)
    return str(caught.value)


def _refused_expr(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        relay.parse_expr(text)
    return str(caught.value)


def test_error_shows_file_line_column_the_line_and_a_caret() -> None:
    with pytest.raises(ParseError) as caught:
        relay.parse(f"{HEADER}def @main(%x: int32) {{\n  ad(%x, %x)\n}}", "model.relay")
    assert str(caught.value) == (
        "model.relay:3:3: there is no operator 'ad'; did you mean 'add'?\n    ad(%x, %x)\n    ^"
    )


def test_long_line_is_cut_around_the_place() -> None:
    lines = _refused_expr(f"({'1, ' * 200}%x{', 1' * 200})").split("\n")
    assert len(lines[1]) < 140
    assert lines[1][lines[2].index("^") :].startswith("%x, 1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def @main() { 1 }", "1:1: expected text format semantic version, found 'def'"),
        ('#[version = "0.0.6"] def @main() { 1 }', '1:1: invalid semantic version "0.0.6"; expected "0.0.5"'),
        ("#[versoin]", "1:1: unsupported section '#[versoin]'; did you mean 'version'?"),
        (HEADER + "def @f() { 1 } def @f() { 2 }", "2:20: global function @f is defined twice"),
        (HEADER + "def @main() { @mian() }", "2:15: there is no global function @mian; did you mean 'main'?"),
        (HEADER + "def @main(%x, %x) { 1 }", "2:15: parameter %x is declared twice"),
        (HEADER + "def main() { 1 }", "2:5: expected a global variable, found identifier 'main'"),
        (HEADER + "def @main() { 1 ", "2:17: expected '}', found the end of the text"),
        (HEADER + "main", "2:1: expected 'def' or 'type', found identifier 'main'"),
        (HEADER + "type A { X } type B { X }", "2:23: constructor X is defined twice; type A has it already"),
        (HEADER + "type A { X, X }", "2:13: constructor X is defined twice; type A has it already"),
        (HEADER + "type A { X } type A { X }", "2:23: constructor X is defined twice; type A has it already"),
        (HEADER + "type A { X } type A { Y }", "2:19: type A is defined twice"),
        (HEADER + "type A[T, T] { X(T) }", "2:11: type variable T is declared twice"),
        (HEADER + "type A[T] { X(T[int32]) }", "2:16: type variable T takes no type arguments"),
        (HEADER + "type A { X(Lost) }", "2:12: there is no type 'Lost' here"),
        (HEADER + "type Lists { X(List) }", "2:16: there is no type 'List' here; did you mean 'Lists'?"),
        (HEADER + "type A[T] { X(A) }", "2:15: type A takes 1 type argument, got 0"),
        (HEADER + "type A[T] { X(A[T, A[T]]) }", "2:15: type A takes 1 type argument, got 2"),
        (HEADER + "extern type A { X }", "2:17: external type A must not have constructors"),
        (HEADER + "type int32 { X }", "2:6: int32 is a type already; give this one another name"),
        (HEADER + "type Tensor { X }", "2:6: Tensor is a type already; give this one another name"),
        (HEADER + "extern def", "2:8: expected 'type', found 'def'"),
        (HEADER + "type { X }", "2:6: expected the name of a type, found '{'"),
        (HEADER + "type A { %x }", "2:10: expected the name of a constructor, found local variable '%x'"),
        (HEADER + "type A { X } def @f() { Y }", "2:25: there is no operator or constructor 'Y'"),
        (HEADER + "def @f() { X } type A { X }", "2:12: there is no operator 'X'"),
        (MATCH + "{ P(_) => 1 } }", "2:53: constructor P has 2 fields, the pattern 1"),
        (MATCH + "{ P => 1 } }", "2:53: constructor P has 2 fields, the pattern 0"),
        (MATCH + "{ Q(_, _) => 1 } }", "2:53: there is no constructor 'Q' here; a variable is written %Q"),
        (MATCH + "{ P(%x, (%y, %x)) => 1 } }", "2:64: pattern variable %x is bound twice"),
        (MATCH + "{ P(%x, _) => 1, _ => %x } }", "2:73: variable %x is not bound here"),
        (MATCH + "{ 1 => 1 } }", "2:53: expected a pattern ('_', a variable, a constructor or a tuple), found number"),
        (MATCH + "{ _ -> 1 } }", "2:55: expected '=>', found '-'"),
        (MATCH + "(1) { _ => 1 } }", "2:51: expected '{', found '('"),
        (HEADER + "def @f() { %0 = 1; 2 } def @g() { %0 }", "2:35: graph variable %0 is not bound before it is used"),
    ],
)
def test_module_error(text: str, reason: str) -> None:
    assert _refused(text).startswith(f"from_string:{reason}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%x", "1:1: variable %x is not bound here"),
        ("fn (%data) { %dat }", "1:14: variable %dat is not bound here; did you mean 'data'?"),
        ("%0", "1:1: graph variable %0 is not bound before it is used"),
        ("nn.relo(1f)", "1:1: there is no operator 'nn.relo'; did you mean 'nn.relu' or"),
        ("reshape(1, newshap=[1])", "1:12: reshape has no attribute 'newshap'; did you mean 'newshape'?"),
        ('reshape(1, newshape=["a"])', "1:21: relay.attrs.ReshapeAttrs: 'newshape' must be a sequence"),
        ("reshape(1)", "1:1: relay.attrs.ReshapeAttrs needs a value for 'newshape'"),
        ("reshape(1, newshape=[1], newshape=[2])", "1:26: attribute 'newshape' is given twice"),
        ("reshape(1, newshape=[k])", "1:22: no dimension is named 'k' here; strings stand in quotes"),
        ('cast(1, dtype="floot32")', "1:15: dtype of cast must be a data type, not 'floot32'"),
        ("add(1, 2, axis=1)", "1:11: operator add takes no attributes, got 'axis'"),
        ("let %f = fn () { 1 }; %f(axis=1)", "1:26: only an operator has attributes by itself"),
        ("1-1", "1:1: invalid integer number '1-1'; write spaces around '+' and '-'"),
        ("1.5", "1:1: invalid integer number '1.5'; a float ends in 'f'"),
        ("1..5f", "1:1: invalid floating point number '1..5'"),
        ("1i7", "1:1: invalid numeric suffix 'i7'; expected one of i8, i16, i32, i64"),
        ("32768i16", "1:1: integer number '32768' is unrepresentable in width 16"),
        ("9223372036854775808", "1:1: integer number '9223372036854775808' is unrepresentable in width 64"),
        ("65505f16", "1:1: floating point number '65505' is unrepresentable in width 16"),
        ("/* a /* b */", "1:1: this comment is never closed; expected '*/'"),
        ('"abc', "1:1: this string is never closed; expected '\"'"),
        ("1 \r", "1:3: a carriage return must be followed by a line feed"),
        ("1 $", "1:3: unexpected character '$'"),
        ("% 1", "1:1: '%' must be followed by the name or the number of a variable"),
        ("meta[relay.Constant][0]", "1:1: no entry in the metadata for 'relay.Constant'; the text has no metadata"),
        ("1 2", "1:3: expected the end of the text, found number"),
        ("(1, 2", "1:6: expected ',' or ')', found the end of the text"),
        ("(1, 2).a", "1:8: expected the index of a field, found identifier 'a'"),
        ("let x = 1; 2", "1:5: expected a local variable, found identifier 'x'"),
        ("if (True) { 1 }", "1:16: expected 'else', found the end of the text"),
        ("fn (%x: Tensor[(2), float33x]) { 1 }", "1:21: there is no data type 'float33x'"),
        ("fn (%x: Tensor[(2), float7]) { 1 }", "1:21: there is no data type 'float7'"),
        ("fn (%x: Tensor[(-2), float32]) { 1 }", "1:16: a dimension of a tensor type is -2"),
        ("fn (%x: Tensor[(2f), float32]) { 1 }", "1:17: expected a dimension (an int, '?' or a name), found number"),
        ("fn (%x: Tensor[(mix(n, 1)), int8]) { 1 }", "1:17: there is no function 'mix' of dimensions; did you mean"),
        ("fn (%x: flaot32) { 1 }", "1:9: there is no type 'flaot32' here; did you mean 'float32'?"),
        ("fn (%x: ref int32) { 1 }", "1:13: expected '(', found identifier 'int32'"),
        ("ref(1, 2)", "1:6: expected ')', found ','"),
        ("ref_write(1)", "1:12: expected ',', found ')'"),
        ("ref_read()", "1:10: expected an expression, found ')'"),
    ],
)
def test_expression_error(text: str, reason: str) -> None:
    assert _refused_expr(text).startswith(f"string:{reason}")


def test_names_that_are_not_bound_are_all_told() -> None:
    message = _refused(HEADER + "def @main(%x: int32) {\n  %x + %y + %z + @f()\n}")
    assert [line for line in message.split("\n") if line.startswith("from_string")] == [
        "from_string:3:8: variable %y is not bound here",
        "from_string:3:13: variable %z is not bound here",
        "from_string:3:18: there is no global function @f",
    ]


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("{", "the metadata section is not valid JSON: Expecting property name"),
        ("[]", "the metadata section is malformed: a document of TVM's JSON is an object with a list of 'nodes'"),
        ('{"nodes": [], "root": 1}', "the metadata section is malformed: the root is not a map of lists"),
    ],
)
def test_metadata_that_cannot_be_read(section: str, reason: str) -> None:
    message = _refused(f"{HEADER}def @main() {{ 1 }}\n#[metadata]{section}")
    assert reason in message
    assert message.startswith("from_string:3:")


def test_type_error_tells_the_place() -> None:
    with pytest.raises(TypeCheckError, match=r"in @main at from_string:3:3: add\(Tensor\[\(2\), int32\]"):
        relay.parse(HEADER + "def @main(%x: Tensor[(2), int32], %y: Tensor[(3), int32]) {\n  %x + %y\n}")


def test_text_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(TypeError, match="a text to parse is a str, not bytes"):
        relay.parse(b"")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("strided_slice(%x, begin=[0], end=[?], strides=[1])", "a position in begin or end is '?'; give a number"),
        ("split(%x, indices_or_sections=?)", "indices_or_sections is ?; it is a number of sections or a list"),
        ("split(%x, indices_or_sections=[1, ?])", "it is a number of sections or a list of positions"),
        ("broadcast_to(1f, shape=[-1])", "a dimension of a tensor type is -1; write relay.Any() for an unknown one"),
        (
            "reshape(%x, newshape=[-4, -1, 0])",
            "-1 after -4 in newshape (-4, -1, 0) cannot be told: the other size is 0",
        ),
        (
            "reshape(%x, newshape=[-4, 0, -1])",
            "-1 after -4 in newshape (-4, 0, -1) cannot be told: the other size is 0",
        ),
        ("expand_dims(%x, axis=0, num_newaxis=4294967296)", "the result would have 4294967297 dimensions"),
        ("dyn.expand_dims(%x, 0, num_newaxis=4294967296)", "the result would have 4294967297 dimensions"),
        ("dyn.reshape(%x, %long, newshape=[])", "the result would have 4294967296 dimensions; a tensor has at most 64"),
        ("dyn.tile(%x, %long, reps=[])", "the result would have 4294967296 dimensions; a tensor has at most 64"),
        ("dyn.ones(%long, shape=[])", "the result would have 4294967296 dimensions; a tensor has at most 64"),
        (
            "dyn.broadcast_to(%x, %long, shape=[])",
            "the result would have 4294967296 dimensions; a tensor has at most 64",
        ),
    ],
)
def test_attribute_beyond_reason_is_a_type_error(expression: str, reason: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        relay.parse(
            f"{HEADER}def @main(%x: Tensor[(4), float32], %long: Tensor[(4294967296), int64]) {{\n  {expression}\n}}"
        )
    assert reason in str(caught.value)
    assert "from_string:3:3" in str(caught.value)


def test_expression_of_the_metadata_is_no_dimension() -> None:
    text = f"{HEADER}def @main(%x: Tensor[(meta[relay.Constant][0]), int8]) {{ %x }}"
    with pytest.raises(ParseError, match=r"from_string:2:23: expected a dimension, found an expression \(Constant\)"):
        relay.parse(text, init_meta_table={"relay.Constant": [relay.const(1)]})
