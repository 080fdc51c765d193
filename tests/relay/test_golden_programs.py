"""Programs that Relay 0.14 ran give what they gave there, from their text, before and after export and load.

A selection lies in this repository. The whole collection runs where it lies beside the repository, program by program
as far as the operators and the parts of the language that it uses are here.
"""

from __future__ import annotations

from pathlib import Path

import golden
import pytest

import vmkit
from vmkit import relay
from vmkit.errors import InputError, TypeCheckError
from vmkit.relay.op import REGISTRY

# Parts of the language that come later; the parser says so.
LATER = frozenset({"adt", "match", "ref"})

# Programs that are refused on purpose, and why.
REFUSED = {
    "test_scatter_nd_any_updates__000": (
        TypeCheckError,
        "the updates do not fit the indices; 0.14 read past their end",
    ),
    "test_tuple_passing__000": (InputError, "int32 is given where int64 is declared; 0.14 did not look"),
    "test_tuple_second__000": (InputError, "41 elements are given where 1 is declared; 0.14 did not look"),
    "test_dynamic_to_static_zeros_ones__002": (InputError, "float64 is given where float32 is declared"),
    "test_dynamic_to_static_zeros_ones__003": (InputError, "float64 is given where float32 is declared"),
    "test_function_taking_adt_ref_tuple__000": (vmkit.errors.ParseError, "it defines a type"),
    "test_function_taking_adt_ref_tuple__001": (vmkit.errors.ParseError, "it defines a type"),
}


def is_covered(program: golden.GoldenProgram) -> bool:
    return not program.flags & LATER and all(name in REGISTRY for name in program.operators)


def check(program: golden.GoldenProgram, folder: Path | None = None) -> None:
    """Run a program; with a folder also from a file, exported and loaded."""
    refused = REFUSED.get(program.name.rsplit("/", 1)[-1])
    expected = refused[0] if refused else vmkit.errors.VMKitError if program.error else None
    if expected is not None:
        with pytest.raises(expected):
            run(program)
        return
    executable = vmkit.compile(relay.parse(program.text), target="llvm")
    program.assert_outputs(vmkit.VirtualMachine(executable).run(*program.inputs))
    if folder is not None:
        executable.export(folder / "program.vmx")
        loaded = vmkit.load(folder / "program.vmx")
        program.assert_outputs(vmkit.VirtualMachine(loaded).run(*program.inputs))


def run(program: golden.GoldenProgram) -> object:
    executable = vmkit.compile(relay.parse(program.text), target="llvm")
    return vmkit.VirtualMachine(executable).run(*program.inputs)


@pytest.mark.parametrize("program", golden.selected(), ids=str)
def test_a_selected_program_gives_what_relay_gave(program: golden.GoldenProgram, tmp_path: Path) -> None:
    check(program, tmp_path)


@pytest.mark.skipif(not golden.COLLECTION.is_dir(), reason="the collection does not lie beside the repository")
@pytest.mark.parametrize("part", range(8))
def test_the_whole_collection_gives_what_relay_gave(part: int) -> None:
    failures = []
    programs = [p for i, p in enumerate(golden.collected()) if i % 8 == part and is_covered(p)]
    assert len(programs) > 50
    for program in programs:
        try:
            check(program)
        except (AssertionError, vmkit.errors.VMKitError, pytest.fail.Exception) as error:
            failures.append(f"{program}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)
