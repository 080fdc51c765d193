"""Texts that Relay 0.14 read and printed are read and printed the same here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tvm_ffi
from relay_texts import (
    COLLECTION,
    SELECTION,
    collection,
    needs_collection,
    parsed,
    records,
    without_comments,
    without_spans,
)

from vmkit import relay
from vmkit.errors import ParseError
from vmkit.relay.text.parser import read_module

SELECTED = records(SELECTION)


def _named(kind: str) -> list[Any]:
    return [pytest.param(r, id=r["id"]) for r in SELECTED if r["kind"] == kind]


@pytest.mark.parametrize("record", _named("types"))
def test_inferred_module_is_printed_as_relay_printed_it(record: dict[str, Any]) -> None:
    module = parsed(record["before_text"])
    assert relay.astext(module, show_meta_data=False, show_spans=False) == without_spans(record["after_text"])


@pytest.mark.parametrize("record", _named("types"))
def test_printed_module_reads_back_equal(record: dict[str, Any]) -> None:
    module = parsed(record["before_text"])
    assert tvm_ffi.structural_equal(relay.parse(relay.astext(module)), module)


@pytest.mark.parametrize("record", [r for r in _named("parser") if r.values[0]["ok"]])
def test_source_is_read_as_relay_read_it(record: dict[str, Any]) -> None:
    node = parsed(record["source"], record["api"])
    assert without_comments(relay.astext(node)) == without_comments(record["out_text"])


@pytest.mark.parametrize("record", [r for r in _named("parser") if not r.values[0]["ok"]])
def test_refused_source_is_refused_in_the_same_line(record: dict[str, Any]) -> None:
    with pytest.raises(ParseError) as caught:
        parsed(record["source"], record["api"])
    line = record["error"]["diagnostics"][0].get("line", 1)
    assert str(caught.value).startswith(("string", "from_string"))
    assert str(caught.value).split(":")[1] == str(line)


@needs_collection
def test_whole_collection_of_programs_reads_back_equal() -> None:
    paths = [*COLLECTION.glob("cases/*/*/program.relay"), *COLLECTION.glob("onnx/*/*/program.relay")]
    failed = [p.parent.name for p in paths if not _reads_back(p)]
    assert failed == []


def _reads_back(path: Path) -> bool:
    # Whether a program is well typed is for the tests of its operators to say.
    module = parsed(path.read_text("utf-8"), "read_module")
    return module is None or tvm_ffi.structural_equal(read_module(relay.astext(module)), module)


@needs_collection
def test_whole_collection_of_sources_is_read_as_relay_read_it() -> None:
    for record in collection("parser"):
        if record["ok"] and (node := parsed(record["source"], record["api"])) is not None:
            assert without_comments(relay.astext(node)) == without_comments(record["out_text"]), record["id"]
