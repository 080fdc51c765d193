"""Documents that TVM 0.14 wrote hold the programs that it printed, and are written again as they were."""

from __future__ import annotations

import zipfile
from typing import Any

import pytest
import tvm
import tvm_ffi

from tests import golden
from tests.places import DATA
from tests.relay.json.documents import assert_same_graph
from vmkit import relay
from vmkit.errors import UnsupportedOperatorError
from vmkit.relay.ir import rewrite, with_functions

SELECTION = golden.selected()
# Programs with data types, matches and references.
WITH_DATA_TYPES = DATA / "relay_documents.zip"


def documents_with_data_types() -> list[tuple[str, str]]:
    with zipfile.ZipFile(WITH_DATA_TYPES) as archive:
        return [(name, archive.read(name).decode()) for name in archive.namelist()]


def same(a: tvm.IRModule, b: tvm.IRModule) -> bool:
    """Say whether two modules are equal; types that nobody inferred are equal to each other."""
    return tvm_ffi.structural_equal(a, b) or (
        any("IncompleteType" in relay.save_json(m) for m in (a, b))
        and tvm_ffi.structural_equal(a, b, map_free_vars=True)
    )


# What the text cannot say: those programs are compared as they are written again, and not with their text.
LOSSY = {
    "test_instance_norm__000": "an epsilon that is 1e-5 only nearly",
    "test_loop__000": "one variable is a parameter of two functions",
    "test_match_full_var__001": "which types that nobody inferred are the same",
    "test_scatter_nd_any_updates__000": "the text is not well typed; 0.14 read past the end of the updates",
    "test_simple_loop__000": "one variable is a parameter of two functions",
}


def with_printed_numbers(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose scalar floats have the six digits that Relay printed."""

    def printed(node: Any, _: Any) -> Any:
        if not isinstance(node, relay.Constant) or len(node.data.shape) or not node.data.dtype.startswith("float"):
            return node
        return relay.const(float(f"{node.data.numpy().item():.6g}"), str(node.data.dtype))

    return with_functions(mod, {name: rewrite(f, {}, printed) for name, f in mod.functions.items()})


def is_what_the_text_says(loaded: tvm.IRModule, program: golden.GoldenProgram) -> bool:
    if program.name.rsplit("/", 1)[-1] in LOSSY:
        return True
    parsed = relay.parse(program.text)
    return same(loaded, parsed) or same(with_printed_numbers(loaded), with_printed_numbers(parsed))


@pytest.mark.parametrize("program", SELECTION, ids=str)
def test_a_selected_document_holds_what_the_text_says(program: golden.GoldenProgram) -> None:
    assert is_what_the_text_says(relay.load_json(program.json), program)


@pytest.mark.parametrize("program", SELECTION, ids=str)
def test_a_selected_document_is_written_as_it_was(program: golden.GoldenProgram) -> None:
    assert_same_graph(relay.save_json(relay.load_json(program.json)), program.json)


@pytest.mark.parametrize(("name", "document"), documents_with_data_types())
def test_data_types_matches_and_references_are_written_as_they_were(name: str, document: str) -> None:
    module = relay.load_json(document)
    written = relay.save_json(module)
    assert_same_graph(written, document)
    assert same(module, relay.load_json(written)), name


@golden.needs_collection
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
            if not is_what_the_text_says(module, program):
                differing.append(f"{program}: not what the text says")
        except AssertionError as error:
            differing.append(f"{program}: {error}")
    assert count > 800
    assert differing == []
