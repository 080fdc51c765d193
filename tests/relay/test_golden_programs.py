"""Programs that Relay 0.14 ran give what they gave there: from their text, from their JSON, after export and load.

A selection lies in this repository. The whole collection runs where it lies beside the repository: always after its
bytecode was written and read, nightly in each way that the selection runs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm_ffi

import vmkit
from tests import golden
from vmkit import relay
from vmkit.errors import InputError, TypeCheckError

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
    "test_tensor_array_write__000": (InputError, "scalars of int32 are given where float32[?] is declared"),
    "test_tensor_array_write__001": (InputError, "scalars are given where int32[?] is declared; 0.14 did not look"),
}


Way = Callable[[vmkit.Executable], vmkit.Executable]
"""What happens to an executable between compiling and running."""


def as_it_is(executable: vmkit.Executable) -> vmkit.Executable:
    return executable


def in_two_parts(executable: vmkit.Executable) -> vmkit.Executable:
    """Return what Relay's two-part form holds: the bytecode is written and read, and nothing is linked."""
    return vmkit.Executable.load_exec(*executable.save())


def through_a_file(folder: Path) -> Way:
    def way(executable: vmkit.Executable) -> vmkit.Executable:
        executable.export(folder / "program.vmx")
        return vmkit.load(folder / "program.vmx")

    return way


def check(program: golden.GoldenProgram, *ways: Way) -> None:
    refused = REFUSED.get(program.name.rsplit("/", 1)[-1])
    expected = refused[0] if refused else vmkit.errors.VMKitError if program.error else None
    if expected is not None:
        with pytest.raises(expected):
            machine(relay.parse(program.text)).run(*program.inputs)
        return
    from_text, from_json = relay.parse(program.text), relay.transform.InferType()(relay.load_json(program.json))
    executable = vmkit.compile(from_text, target="llvm")
    for way in ways:
        program.assert_outputs(vmkit.VirtualMachine(way(executable)).run(*program.inputs))
    if not tvm_ffi.structural_equal(from_text, from_json):
        # The text has six digits of a float, and not all that a reference or a shared variable says.
        program.assert_outputs(machine(from_json).run(*program.inputs))


SELECTED = {program.name: program for program in golden.selected()}


def machine(mod: Any) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(mod, target="llvm"))


@pytest.mark.parametrize("program", SELECTED.values(), ids=str)
def test_a_selected_program_gives_what_relay_gave(program: golden.GoldenProgram, tmp_path: Path) -> None:
    check(program, as_it_is, through_a_file(tmp_path))


@golden.needs_collection
@pytest.mark.parametrize("part", range(8))
def test_the_whole_collection_gives_what_relay_gave(part: int) -> None:
    check_all(slice(part, None, 8), in_two_parts)


@golden.needs_collection
@pytest.mark.nightly
@pytest.mark.parametrize("part", range(8))
def test_the_whole_collection_gives_the_same_from_files(part: int, tmp_path: Path) -> None:
    check_all(slice(part, None, 8), as_it_is, through_a_file(tmp_path))


def check_all(part: slice, *ways: Way) -> None:
    failures = []
    for program in golden.collected(part):
        if program.name in SELECTED:
            continue  # it runs by itself
        try:
            check(program, *ways)
        except (AssertionError, vmkit.errors.VMKitError, pytest.fail.Exception) as error:
            failures.append(f"{program}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


def test_few_programs_are_refused() -> None:
    if golden.COLLECTION.is_dir():
        assert len(REFUSED) < 0.01 * len(list(golden.collected()))
