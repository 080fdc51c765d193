"""Targets for all processors of a family."""

from __future__ import annotations

import pytest

from vmkit.target import canonical_target
from vmkit.target.families import is_generic, portable_config
from vmkit.target.vectors import vector_unit


def test_portable_names_no_processor() -> None:
    target = canonical_target("portable").primary
    assert str(target.kind.name) == "llvm" and "mcpu" not in target.attrs and is_generic(target)
    wide = canonical_target("portable -mtriple=x86_64-linux-gnu -num-cores=2").primary
    assert (vector_unit(wide).lanes, int(wide.attrs["num-cores"])) == (8, 2)
    arm = canonical_target({"kind": "portable", "mtriple": "aarch64-linux-gnu"}).primary
    assert vector_unit(arm).lanes == 4 and "vector-width" not in arm.attrs
    assert portable_config("aarch64-linux-gnu") == {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}


@pytest.mark.parametrize(("width", "lanes"), [(128, 4), (256, 8), (512, 16), (1024, 4)])
def test_the_width_of_vectors_is_what_a_target_says(width: int, lanes: int) -> None:
    target = canonical_target(f"llvm -mtriple=x86_64-linux-gnu -vector-width={width}").primary
    assert vector_unit(target).lanes == lanes


@pytest.mark.parametrize(
    ("cpu", "generic"), [("x86-64", True), ("x86-64-v3", True), ("generic", True), ("znver4", False), ("core2", False)]
)
def test_which_names_are_of_families(cpu: str, generic: bool) -> None:
    assert is_generic(canonical_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}").primary) is generic
