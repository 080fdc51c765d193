"""How programs are printed, and that what is printed reads back as the same program."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from vmkit import relay
from vmkit.errors import ModelError, ParseError
from vmkit.relay import Function, If, Let, Tuple, TupleGetItem, const, var

HEADER = '#[version = "0.0.5"]\n'


def _printed(node: Any) -> str:
    return relay.astext(node).removeprefix(HEADER)


def test_shared_expressions_are_numbered_and_defs_sorted() -> None:
    x = var("x", shape=(2,), dtype="int32")
    y = x + const(1)
    module = tvm.IRModule({"main": Function([x], y * y), "also": Function([], const(1))})
    assert _printed(relay.transform.InferType()(module)) == (
        "def @also() -> int32 {\n"
        "  1 /* ty=int32 */\n"
        "}\n"
        "\n"
        "def @main(%x: Tensor[(2), int32] /* ty=Tensor[(2), int32] */) -> Tensor[(2), int32] {\n"
        "  %0 = add(%x, 1 /* ty=int32 */) /* ty=Tensor[(2), int32] */;\n"
        "  multiply(%0, %0) /* ty=Tensor[(2), int32] */\n"
        "}\n"
    )


def test_expression_of_two_scopes_is_bound_outside_both() -> None:
    x = var("x", "int32")
    shared = relay.negative(x)
    inner = Function([], shared)
    assert str(Function([x], Tuple([inner(), shared]))) == (
        "fn (%x: int32) {\n  %0 = negative(%x);\n  %1 = fn () {\n    %0\n  };\n  %2 = %1();\n  (%2, %0)\n}"
    )


def test_str_shows_the_text_without_header_and_metadata() -> None:
    x = var("x", shape=(2,), dtype="float32")
    assert str(relay.nn.relu(x)) == "free_var %x: Tensor[(2), float32];\nnn.relu(%x)"
    assert str(Function([x], x)) == "fn (%x: Tensor[(2), float32]) {\n  %x\n}"
    assert str(const([1.0, 2.0])) == "meta[relay.Constant][0]"


def test_a_constant_shows_its_type_once_types_are_inferred() -> None:
    whole, scalar = const([1.0, 2.0]), const(1)
    typed = relay.transform.InferType()(tvm.IRModule({"main": Function([], Tuple([whole, scalar]))}))
    assert [str(c) for c in typed["main"].body.fields] == [
        "meta[relay.Constant][0] /* ty=Tensor[(2), float32] */",
        "1 /* ty=int32 */",
    ]
    assert [str(c) for c in (whole, scalar)] == ["meta[relay.Constant][0]", "1"]
    assert typed["main"].body.fields[0].data.same_as(whole.data)


def test_repr_is_the_text_also_within_others() -> None:
    x = var("x", shape=(), dtype="int32")
    call = relay.negative(x)
    text = "free_var %x: int32;\nnegative(%x)"
    assert repr(call) == text and repr([call]) == f"[{text}]"
    assert repr(Tuple([call]).fields) == f"({text},)"
    assert repr(Function([x], call)) == "fn (%x: int32) {\n  negative(%x)\n}"


def test_variables_of_one_name_are_told_apart() -> None:
    a, b = var("x", "int32"), var("x", "int32")
    assert str(Function([a, b], a + b)) == "fn (%x: int32, %x1: int32) {\n  add(%x, %x1)\n}"


def test_names_that_are_no_names_are_mended() -> None:
    x, y = var("input.1:0", "int32"), var("0", "int32")
    assert str(Function([x, y], x)) == "fn (%input_1_0: int32, %v0: int32) {\n  %input_1_0\n}"


def test_dimensions_of_one_name_are_told_apart() -> None:
    n, m = tvm.tirx.Var("n", "int64"), tvm.tirx.Var("n", "int64")
    x, y = var("x", shape=(n, m)), var("y", shape=(m,))
    assert str(Function([x, y], x)).startswith("fn (%x: Tensor[(n, n_1), float32], %y: Tensor[(n_1), float32])")


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1, "int32", "1"),
        (1, "int64", "1i64"),
        (1, "int16", "1i16"),
        (1.5, "float32", "1.5f"),
        (1e10, "float32", "1e+10f"),
        (1 / 3, "float32", "0.33333334f"),
        (1 / 3, "float64", "0.3333333333333333f64"),
        (2.5, "float16", "2.5f16"),
        (65504.0, "float16", "65504f16"),
        (-3.4028234663852886e38, "float32", "-3.4028234663852886e+38f"),
        (float("inf"), "float32", "inff"),
        (float("-inf"), "float32", "-inff"),
        (True, "bool", "True"),
    ],
)
def test_scalar_is_a_literal_that_reads_back_exactly(value: Any, dtype: str, text: str) -> None:
    constant = const(value, dtype)
    assert str(constant).split(" ")[0] == text
    assert tvm_ffi.structural_equal(relay.parse_expr(text), constant)


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, "uint8"),
        np.array(-3, "int8"),
        np.array(np.nan, "float32"),
        np.array(np.inf, "float16"),
        np.array([True, False]),
        np.zeros((2, 0, 3), "int64"),
        np.arange(6, dtype="float64").reshape(2, 3),
        np.array([1, 2**63], "uint64"),
    ],
    ids=lambda a: f"{a.dtype}{list(a.shape)}",
)
def test_other_constants_stand_in_the_metadata(array: np.ndarray) -> None:
    constant = const(array)
    text = relay.astext(constant)
    assert text.startswith(f"{HEADER}meta[relay.Constant][0]")
    back = relay.parse_expr(text).data
    assert (str(back.dtype), back.shape) == (str(array.dtype), array.shape)
    np.testing.assert_array_equal(back.numpy(), array)


def test_bfloat16_constant_stands_in_the_metadata() -> None:
    constant = const([1.5, 2.0], "bfloat16")
    assert tvm_ffi.structural_equal(relay.parse_expr(relay.astext(constant)), constant)


def test_metadata_is_json_of_relays_time() -> None:
    constant = const(np.array([4, 5], "int32"))
    document = json.loads(relay.astext(Tuple([constant, constant])).partition("#[metadata]")[2])
    assert document["attrs"] == {"tvm_version": "0.14.0"}
    assert [n["type_key"] for n in document["nodes"]].count("relay.Constant") == 1
    assert document["nodes"][document["root"]]["keys"] == ["relay.Constant"]
    assert document["b64ndarrays"] == ["P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAAgAQACAAAAAAAAAAgAAAAAAAAABAAAAAUAAAA="]


def test_metadata_may_be_left_out() -> None:
    text = relay.astext(const([1.0]), show_meta_data=False)
    assert "#[metadata]" not in text
    assert "the metadata section has been omitted" in text


def test_only_attributes_that_differ_from_the_default_are_printed() -> None:
    x = var("x", shape=(2, 3))
    assert str(relay.nn.softmax(x)).endswith("\nnn.softmax(%x)")
    assert str(relay.nn.softmax(x, axis=0)).endswith("\nnn.softmax(%x, axis=0)")
    assert str(relay.reshape(x, (relay.Any(), 2))).endswith("\nreshape(%x, newshape=[?, 2])")
    assert str(relay.cast(x, "int32")).endswith('\ncast(%x, dtype="int32")')


def test_attributes_for_which_relay_had_no_default_are_always_printed() -> None:
    x, i = var("x", shape=(2, 3)), var("i", shape=(2, 3), dtype="int32")
    for call, text in (
        (relay.gather(x, 0, i), "gather(%x, %i, axis=0)"),
        (relay.reverse(x, 0), "reverse(%x, axis=0)"),
        (relay.debug(x), "debug(%x, debug_func=None)"),
        (relay.nn.contrib_dense_pack(x, i), "nn.contrib_dense_pack(%x, %i, units=None)"),
        (relay.nn.l2_normalize(x, 1e-6), "nn.l2_normalize(%x, eps=1e-06f, axis=None)"),
    ):
        assert str(Function([x, i], call)).splitlines()[1].strip() == text


def test_string_that_has_no_notation_stands_in_the_metadata() -> None:
    function = Function([], const(1), attrs={"words": 'a "b"\nc'})
    text = relay.astext(function)
    assert "words=meta[runtime.String][0]" in text
    assert relay.parse_expr(text).attrs["words"] == 'a "b"\nc'


def test_spans_are_printed_unless_they_are_not_wanted() -> None:
    module = relay.parse(HEADER + "def @main(%x: int32) { %x }", "model.relay")
    assert "/* ty=int32 span=model.relay:2:11 */" in relay.astext(module)
    assert "span" not in relay.astext(module, show_spans=False)


def test_let_as_the_value_of_a_let_reads_back() -> None:
    inner, outer = var("a", "int32"), var("b", "int32")
    let = Let(outer, Let(inner, const(1), inner), outer)
    assert tvm_ffi.structural_equal(relay.parse_expr(relay.astext(let)), let)


def test_function_of_another_dialect_has_no_text() -> None:
    module = tvm.IRModule({"main": tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0))})
    with pytest.raises(ModelError, match="@main is a PrimFunc; only Relay functions have a text"):
        relay.astext(module)


@st.composite
def _modules(draw: Any) -> tvm.IRModule:
    """Draw a module of tensors of one shape, with sharing, branches, tuples, Lets and closures."""
    shape = draw(st.sampled_from([(), (3,), (relay.Any(), 2), (tvm.tirx.Var("n", "int64"), 4)]))
    params = [var(draw(st.sampled_from(["x", "y", "1", "a.b"])), shape=shape) for _ in range(draw(st.integers(1, 3)))]
    values: list[Any] = list(params)
    lets: list[tuple[Any, Any]] = []
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    for kind in draw(st.lists(st.integers(0, 6), max_size=12)):
        a, b = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        match kind:
            case 0:
                made: Any = a + b
            case 1:
                made = relay.tanh(a) * const(draw(number), "float32")
            case 2:
                made = If(const(draw(st.booleans())), a, relay.negative(b))
            case 3:
                made = TupleGetItem(Tuple([a, b]), draw(st.integers(0, 1)))
            case 4:
                made = var("t")
                lets.append((made, a - b))
            case 5:
                inner = var("x", shape=shape)
                made = Function([inner], inner + a)(b)
            case _:
                made = a + relay.cast(const(np.array(draw(st.integers(0, 9)), "int8")), "float32")
        values.append(made)
    body: Any = Tuple(values[-2:]) if draw(st.booleans()) else values[-1]
    for variable, value in reversed(lets):
        body = Let(variable, value, body)
    return tvm.IRModule({"main": Function(params, body)})


@settings(max_examples=60, deadline=None)
@given(_modules())
def test_printed_module_reads_back_as_the_same_module(module: tvm.IRModule) -> None:
    module = relay.transform.InferType()(module)
    text = relay.astext(module)
    back = relay.parse(text)
    assert tvm_ffi.structural_equal(back, module)
    assert relay.astext(back, show_spans=False) == text


def test_use_of_an_argument_does_not_change_its_type() -> None:
    # The parameter has another type than the Let whose value it is given: the same variable, used before and after.
    n = tvm.tirx.Var("n", "int64")
    x, p, t = var("x", shape=(n, 4)), var("p", shape=(n, 4)), var("t")
    module = tvm.IRModule({"main": Function([x], Let(t, x - x, Function([p], p + t)(t)))})
    typed = relay.transform.InferType()(module)
    assert str(typed["main"].body.var.checked_type) == "Tensor[(n, 4), float32]"
    assert tvm_ffi.structural_equal(relay.parse(relay.astext(typed)), typed)


def test_type_variable_has_another_name_than_those_around_it() -> None:
    a, b, c = relay.TypeVar("A"), relay.TypeVar("A"), relay.TypeVar("int32")
    x, y = relay.Var("x", a), relay.Var("y", relay.ir.FuncType([b], c))
    function = Function([x], Function([y], x, a, [b, c]), None, [a])
    text = relay.astext(function)
    assert text == HEADER + "fn [A](%x: A) {\n  fn [A1, Tint32](%y: fn (A1) -> Tint32) -> A {\n    %x\n  }\n}"
    assert tvm_ffi.structural_equal(relay.parse_expr(text), function)


def test_a_map_among_the_attributes_of_a_function_is_printed_and_read_back() -> None:
    function = Function([], const(1), attrs={"sizes": {"a": 1, "b": [1, 2]}, "level": 2})
    text = str(function)
    assert text == 'fn (sizes={"a"=1, "b"=[1, 2]}, level=2) {\n  1\n}' or text == (
        'fn (level=2, sizes={"a"=1, "b"=[1, 2]}) {\n  1\n}'
    )
    assert relay.structural_equal(relay.parse_expr(text), function)
    with pytest.raises(ParseError, match="the map has 'a' twice"):
        relay.parse_expr('fn (sizes={"a"=1, "a"=2}) { 1 }')
