"""Texts that Relay 0.14 read and printed are read and printed the same here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

from tests.golden import COLLECTION, needs_collection
from tests.relay.text.texts import (
    SELECTION,
    collection,
    parsed,
    records,
    without_comments,
    without_spans,
)
from vmkit import relay
from vmkit.errors import ParseError
from vmkit.relay.text.parser import read_module

SELECTED = records(SELECTION)

# Sources whose error is told at another place than by Relay, which was at the end of the bad token or nowhere.
OTHER_PLACE = {
    "2147483648i32": "a number is pointed at where it begins",
    "32768i16": "a number is pointed at where it begins",
    "3.40283e+38f32": "a number is pointed at where it begins",
    "meta[type_key][1337]": "a metadata reference has a place, of which Relay told nothing",
}

_SIZES = re.compile(r"Tensor\[\([^()]*\)|=\[[^\]]*\]")

# What of Relay's text is printed in another way here, as patterns and what stands for them.
OTHER_NOTATION = [
    # Sizes and the numbers of lists are integers without a width.
    (_SIZES, lambda sizes: re.sub(r"(\d)i64\b", r"\1", sizes.group())),
    # An attribute does not repeat a variable of the program, which is the operator's argument already.
    (re.compile(r"(start|stop|step)=meta\[relay\.Var\]\[\d+\]"), r"\1=None"),
    # Arithmetic of unknown sizes is an unknown size.
    (re.compile(r"meta\[tir\.(?:Mul|FloorDiv)\]\[\d+\]"), "?"),
]

# Texts with these are printed in another way as a whole.
OTHER_TEXT = {
    "meta[tir.SizeVar]": "a symbolic size has its name in the text",
    " = let ": "a Let that is a value stands in brackets, without which Relay did not read it back",
}


def _named(kind: str) -> list[Any]:
    return [pytest.param(r, id=r["id"]) for r in SELECTED if r["kind"] == kind]


@pytest.mark.parametrize("record", _named("types"))
def test_inferred_module_is_printed_as_relay_printed_it(record: dict[str, Any]) -> None:
    module = parsed(record["before_text"])
    text = relay.astext(module, show_meta_data=False, show_spans=False)
    assert text == without_spans(_without_metadata(record["after_text"]))


def _without_metadata(text: str) -> str:
    before, section, _ = text.partition("\n#[metadata]")
    return f"{before}\n{relay.text.metadata.OMITTED}" if section else text


@pytest.mark.parametrize("record", _named("types"))
def test_printed_module_reads_back_equal(record: dict[str, Any]) -> None:
    module = parsed(record["before_text"])
    assert tvm_ffi.structural_equal(relay.parse(relay.astext(module)), module)


@pytest.mark.parametrize("record", [r for r in _named("parser") if r.values[0]["ok"]])
def test_source_is_read_as_relay_read_it(record: dict[str, Any]) -> None:
    node = parsed(record["source"], record["api"])
    assert without_comments(relay.astext(node)) == without_comments(record["out_text"])


@pytest.mark.parametrize("record", [r for r in _named("parser") if not r.values[0]["ok"]])
def test_refused_source_is_refused_at_the_same_place(record: dict[str, Any]) -> None:
    _check_refused(record)


def _check_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ParseError) as caught:
        parsed(record["source"], record["api"])
    name, line, column = str(caught.value).split(":")[:3]
    assert name == ("string" if record["api"] == "parse_expr" else "from_string")
    relay_told = record["error"]["diagnostics"][0]
    if record["source"] in OTHER_PLACE:
        assert (line, column) == ("1", "1")
    else:
        assert (line, column) == (str(relay_told["line"]), str(relay_told["column"]))


@needs_collection
def test_whole_collection_of_programs_is_printed_alike_and_reads_back_equal() -> None:
    paths = [*COLLECTION.glob("cases/*/*/program.relay"), *COLLECTION.glob("onnx/*/*/program.relay")]
    assert [reason for p in paths if (reason := _difference(p))] == []


def _difference(path: Path) -> str | None:
    """Return how a program differs from its text, or None."""
    source = path.read_text("utf-8")
    # Whether a program is well typed is for the tests of its operators to say.
    module = parsed(source, "read_module")
    if module is None:
        return None
    text = relay.astext(module)
    if not tvm_ffi.structural_equal(read_module(text), module):
        return f"{path.parent.name} does not read back"
    expected = without_comments(source)
    if any(part in expected for part in OTHER_TEXT):
        return None
    for pattern, replacement in OTHER_NOTATION:
        expected = pattern.sub(replacement, expected)
    return None if without_comments(text) == expected else f"{path.parent.name} is printed in another way"


@needs_collection
def test_whole_collection_of_sources_is_read_as_relay_read_it() -> None:
    for record in collection("parser"):
        if not record["ok"]:
            _check_refused(record)
        elif (node := parsed(record["source"], record["api"])) is not None:
            assert without_comments(relay.astext(node)) == without_comments(record["out_text"]), record["id"]
