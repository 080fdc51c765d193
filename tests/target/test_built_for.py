"""What code was built for, told and judged without LLVM where Linux tells enough."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vmkit.target import built_for, canonical_target, llvm, x86_features
from vmkit.target.built_for import BuiltFor

_LINUX_X86 = sys.platform == "linux" and os.uname().machine == "x86_64"


def stored(target: str) -> BuiltFor:
    """Return what a file says of a target."""
    return BuiltFor.from_json(json.loads(json.dumps(BuiltFor.of(canonical_target(target).primary).to_json())))


def test_kind_cores_and_target_survive_a_file() -> None:
    read = stored("llvm -num-cores=3")
    assert (read.kind, read.number_of_cores) == ("llvm", 3)
    assert read.target is not None
    assert read.target.attrs["num-cores"] == 3


def test_an_unknown_target_has_no_problems() -> None:
    nothing = BuiltFor.from_json(BuiltFor.of(None).to_json())
    assert (nothing.kind, nothing.number_of_cores, nothing.target, nothing.problems_here()) == (None, 0, None, [])


@pytest.mark.skipif(not _LINUX_X86, reason="what is known without LLVM is known of Linux on x86")
def test_code_for_this_machine_is_known_to_fit_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    read = stored("native")
    monkeypatch.setattr(built_for.host, "host_supports", lambda target: ["LLVM was asked"])
    assert read.problems_here() == []


@pytest.mark.parametrize("features", [{}, {"another target": []}])
def test_llvm_is_asked_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch, features: dict[str, list[str]]) -> None:
    read = replace(stored("native"), features=features)
    monkeypatch.setattr(built_for.host, "host_supports", lambda target: ["LLVM was asked"])
    assert read.problems_here() == ["LLVM was asked"]


def test_a_feature_that_is_not_there_is_named_by_llvm() -> None:
    lacking = next(name for name in ("avx10.2", "sve2", "amx-fp8") if not llvm.host_features().get(name))
    own = stored("native")
    assert own.text is not None
    text = json.dumps({"kind": "llvm", "mtriple": own.triple, "mattr": [f"+{lacking}"]})
    read = BuiltFor.from_json({**own.to_json(), "target": text, "target_host": None, "features": {text: [lacking]}})
    assert [lacking in reason for reason in read.problems_here()] == [True]


def test_code_for_another_architecture_is_refused() -> None:
    (reason,) = stored("llvm -mtriple=s390x-linux-gnu").problems_here()
    assert reason.startswith("built for s390x")


@pytest.mark.parametrize("features", [[], "avx", {"text": "avx"}])
def test_features_that_are_no_table_are_refused(features: object) -> None:
    with pytest.raises(ValueError, match="the features are"):
        BuiltFor.from_json({**stored("llvm").to_json(), "features": features})


@pytest.mark.skipif(not _LINUX_X86, reason="compares what Linux and LLVM say of an x86")
def test_linux_tells_nothing_that_llvm_does_not() -> None:
    present = {name for name, there in llvm.host_features().items() if there}
    assert x86_features.features_in() <= present
    assert "sse2" in x86_features.features_in()


def test_flags_have_llvms_names(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(
        "processor\t: 0\nflags\t\t: fpu pni sse4_2 abm avx512_vnni avx512_vp2intersect amx_tile avx_vnni bmi1\n"
    )
    expected = {*("sse3", "sse4.2", "crc32", "lzcnt", "avx512vnni", "avx512vp2intersect", "amx-tile", "avxvnni", "bmi")}
    assert x86_features.features_in(cpuinfo) == expected
    assert x86_features.features_in(tmp_path / "none") == set()
