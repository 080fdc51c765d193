"""Documents that TVM 0.14 wrote hold the programs that it printed, and are written again as they were."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import golden
import pytest
import tvm
import tvm_ffi
from json_documents import assert_same_graph

from vmkit import relay
from vmkit.errors import ParseError, TypeCheckError, UnsupportedOperatorError

SELECTION = golden.selected()
# Programs with data types, matches and references.
WITH_DATA_TYPES = Path(golden.__file__).parent / "data" / "relay_documents.zip"


def documents_with_data_types() -> list[tuple[str, str]]:
    with zipfile.ZipFile(WITH_DATA_TYPES) as archive:
        return [(name, archive.read(name).decode()) for name in archive.namelist()]


def same(a: tvm.IRModule, b: tvm.IRModule) -> bool:
    """Say whether two modules are equal; types that nobody inferred are equal to each other."""
    return tvm_ffi.structural_equal(a, b) or (
        any("IncompleteType" in relay.save_json(m) for m in (a, b))
        and tvm_ffi.structural_equal(a, b, map_free_vars=True)
    )


def is_what_the_text_says(loaded: tvm.IRModule, text: str) -> bool:
    parsed = relay.parse(text)
    # Relay's text had six digits of a float, and a name for each of two functions' parameters that are one variable.
    return same(loaded, parsed) or same(relay.parse(_FLOAT.sub(_six_digits, relay.astext(loaded))), parsed)


_FLOAT = re.compile(r"(?<![\w.\-])(-?\d[\d.]*(?:e[+-]?\d+)?)(f(?:16|64)?)\b")


def _six_digits(literal: re.Match[str]) -> str:
    return f"{float(literal[1]):.6g}{literal[2]}"


@pytest.mark.parametrize("program", SELECTION, ids=str)
def test_a_selected_document_holds_what_the_text_says(program: golden.GoldenProgram) -> None:
    assert is_what_the_text_says(relay.load_json(program.json), program.text)


@pytest.mark.parametrize("program", SELECTION, ids=str)
def test_a_selected_document_is_written_as_it_was(program: golden.GoldenProgram) -> None:
    assert_same_graph(relay.save_json(relay.load_json(program.json)), program.json)


@pytest.mark.parametrize(("name", "document"), documents_with_data_types())
def test_data_types_matches_and_references_are_written_as_they_were(name: str, document: str) -> None:
    module = relay.load_json(document)
    written = relay.save_json(module)
    assert_same_graph(written, document)
    assert same(module, relay.load_json(written)), name


@pytest.mark.skipif(not golden.COLLECTION.is_dir(), reason="the collection does not lie beside the repository")
def test_the_whole_collection_is_read_as_the_text_says_and_written_as_it_was() -> None:
    count, differing = 0, []
    for program in golden.collected():
        try:
            module = relay.load_json(program.json)
        except UnsupportedOperatorError:
            continue
        count += 1
        try:
            assert_same_graph(relay.save_json(module), program.json)
            if not is_what_the_text_says(module, program.text):
                differing.append(f"{program}: not what the text says")
        except AssertionError as error:
            differing.append(f"{program}: {error}")
        except (ParseError, TypeCheckError):
            # What the text cannot say, and whether a program is well typed, is for other tests to judge.
            continue
    assert count > 800
    assert differing == []
