"""Operators of ONNX on strings."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.ml.models import I64, B, S, agrees, onnx_node, same, texts
from vmkit import backend
from vmkit.errors import ModelError, UnsupportedOperatorError
from vmkit.frontend.onnx.regular_expression import python_pattern


def test_strings_are_put_together_with_broadcasting() -> None:
    inputs = {"x": (["n", 1], object), "y": (["m"], object)}
    feed = {"x": texts("a", "", "ß").reshape(3, 1), "y": texts("1", "2")}
    agrees(onnx_node("StringConcat", inputs, [S]), feed, {**feed, "y": texts("z")})


@pytest.mark.parametrize("attributes", [{}, {"delimiter": ","}, {"delimiter": ",", "maxsplit": 1}, {"maxsplit": 2}])
def test_strings_are_split(attributes: dict[str, object]) -> None:
    x = texts("a,b,,c", "b", " a b  c d", ",").reshape(2, 2)
    agrees(onnx_node("StringSplit", {"x": (["n", "m"], object)}, [S, I64], **attributes), {"x": x})


@pytest.mark.parametrize(
    ("case", "sensitive", "expected"),
    [
        ("NONE", 1, ["Monday", "tuesday", "ÜND", "straße"]),
        ("LOWER", 1, ["monday", "tuesday", "ünd", "straße"]),
        ("UPPER", 0, ["TUESDAY", "STRAßE"]),
        ("NONE", 0, ["tuesday", "straße"]),
    ],
)
def test_strings_are_normalized(case: str, sensitive: int, expected: list[str]) -> None:
    attributes = {"case_change_action": case, "is_case_sensitive": sensitive, "stopwords": ["monday", "Ünd"]}
    vector = texts("Monday", "monday", "tuesday", "ÜND", "straße")
    machine, row = (
        vmkit.VirtualMachine(
            vmkit.compile(onnx_node("StringNormalizer", {"x": (shape, object)}, [S], **attributes), target="llvm")
        )
        for shape in (["n"], [1, "n"])
    )
    assert machine.run(vector).numpy().tolist() == expected
    assert row.run(vector[None]).numpy().tolist() == [expected]
    assert machine.run(texts("monday")).numpy().tolist() == [""]


def test_a_locale_whose_letters_have_their_own_cases_is_refused() -> None:
    model = onnx_node("StringNormalizer", {"x": (["n"], object)}, [S], case_change_action="LOWER", locale="tr_TR")
    with pytest.raises(UnsupportedOperatorError, match="tr_TR"):
        vmkit.compile(model, target="llvm")


@pytest.mark.parametrize(
    "pattern",
    [
        r"www\.[\w.-]+\.\bcom\b", r"[[:alpha:]]+\d{2,}", r"(?i)AbC|x", r"a{,2}", r"[^a-c]*$", r"\Qa.c\E+", r"\x{61}.*",
        r"(?P<n>a+)b?", r"(?:ab)*?", "", r"[]a]+", r"[\d\s]+", r"é+",
    ],
)  # fmt: skip
def test_patterns_match_as_in_onnxruntime(pattern: str) -> None:
    x = texts(
        "www.google.com", "ab12", "abc", "a{,2}", "xyz", "a.ccc", "aab", "abab", "", "]a]", "1 2", "éé", "a\n", "٣"
    )
    agrees(onnx_node("RegexFullMatch", {"x": (["n"], object)}, [B], pattern=pattern), {"x": x})


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        (r"(?=a)b", ModelError), (r"(?<!a)b", ModelError), (r"(a)\1", ModelError), (r"a++", ModelError),
        (r"(a", ModelError), (r"[a", ModelError), (r"\Z", ModelError), (r"[[:letter:]]", ModelError),
        (r"\pL", UnsupportedOperatorError), (r"(?U)a+", UnsupportedOperatorError), (r"\C", UnsupportedOperatorError),
    ],
)  # fmt: skip
def test_patterns_that_mean_nothing_or_another_thing_here_are_refused(pattern: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        python_pattern(pattern)


def test_strings_are_moved_chosen_and_compared_like_numbers() -> None:
    strings = helper.make_tensor("words", S, [2, 2], [b"a", "é".encode(), b"", b"long " * 9])
    shape = helper.make_tensor("shape", I64, [2], [1, 4])
    nodes = [
        helper.make_node("Constant", [], ["one"], value_string="a"),
        helper.make_node("Constant", [], ["two"], value_strings=["b", "é"]),
        helper.make_node("Gather", ["words", "i"], ["rows"], axis=0),
        helper.make_node("Concat", ["rows", "x"], ["all"], axis=0),
        helper.make_node("Transpose", ["all"], ["turned"], perm=[1, 0]),
        helper.make_node("Equal", ["all", "two"], ["same"]),
        helper.make_node("Where", ["same", "one", "all"], ["chosen"]),
        helper.make_node("Reshape", ["words", "shape"], ["flat"]),
        helper.make_node("Identity", ["flat"], ["kept"]),
    ]
    inputs = [helper.make_tensor_value_info("x", S, ["n", 2]), helper.make_tensor_value_info("i", I64, ["k"])]
    outputs = [("turned", S, [2, None]), ("same", B, [None, 2]), ("chosen", S, [None, 2]), ("kept", S, [1, 4])]
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_tensor_value_info(*o) for o in outputs], [strings, shape]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    x = texts("é", "b", "c", "é").reshape(2, 2)
    machine = vmkit.VirtualMachine(vmkit.compile(model, target="llvm"), num_threads=1)
    words = texts("a", "é", "", "long " * 9).reshape(2, 2)
    for rows, i in ((x, [1, 0]), (x[:1], [1, 1, 0])):
        whole = np.concatenate([words[i], rows])
        is_same = whole == texts("b", "é")
        expected = [whole.T, is_same, np.where(is_same, "a", whole), words.reshape(1, 4)]
        same([r.numpy() for r in machine.run(rows, np.array(i))], expected)


def test_a_branch_of_a_condition_makes_strings() -> None:
    branches = {
        name: helper.make_graph(
            [helper.make_node("StringConcat", order, [name])], name, [], [helper.make_tensor_value_info(name, S, ["n"])]
        )
        for name, order in (("then", ["x", "c"]), ("other", ["c", "x"]))
    }
    node = helper.make_node("If", ["b"], ["y"], then_branch=branches["then"], else_branch=branches["other"])
    inputs = [helper.make_tensor_value_info("x", S, ["n"]), helper.make_tensor_value_info("b", B, [])]
    constant = helper.make_tensor("c", S, [1], [b"!"])
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", S, ["n"])], [constant])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    feeds = [{"x": texts("a", "b"), "b": np.array(value)} for value in (True, False)]
    agrees(model, *feeds)


def test_strings_in_sequences_and_distinct_strings() -> None:
    inputs = [
        helper.make_tensor_sequence_value_info("s", TensorProto.STRING, ["k"]),
        helper.make_tensor_value_info("x", TensorProto.STRING, ["n"]),
        helper.make_tensor_value_info("i", TensorProto.INT64, []),
    ]
    nodes = [
        helper.make_node("SequenceAt", ["s", "i"], ["at"]),
        helper.make_node("SequenceInsert", ["s", "x"], ["longer"]),
        helper.make_node("Unique", ["x"], ["distinct", "first", "which", "counts"]),
    ]
    names = ["at", "longer", "distinct", "first", "which", "counts"]
    graph = helper.make_graph(nodes, "strings", inputs, [onnx.ValueInfoProto(name=n) for n in names])
    prepared = backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))
    texts = [np.array(["a", "b"], object), np.array(["ü"], object)]
    given = np.array(["q", "p", "q", "zz", ""], object)
    at, longer, distinct, first, which, counts = prepared.run([texts, given, np.int64(1)])
    assert at.tolist() == ["ü"]
    assert [t.tolist() for t in longer] == [["a", "b"], ["ü"], given.tolist()]
    assert distinct.tolist() == ["", "p", "q", "zz"]
    assert (first.tolist(), which.tolist(), counts.tolist()) == ([4, 1, 0, 3], [2, 1, 2, 3, 0], [1, 1, 2, 1])
