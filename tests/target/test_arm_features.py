"""What the file of Linux about processors says of one of ARM's."""

from __future__ import annotations

from pathlib import Path

import pytest

from vmkit.target import arm_features, canonical_target, host_supports, llvm

# The lines of a Neoverse N1 and of a Cortex-A72 without ciphers.
SERVER = (
    "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp\n"
)
BOARD = "Features\t: fp asimd evtstrm crc32 cpuid\n"
BOARDS_OWN = {"fp-armv8": True, "neon": True, "crc": True, "aes": False, "sha2": False, "sve": False, "rand": False}


def test_features_that_every_processor_has_are_there(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor\t: 0\n{SERVER}processor\t: 1\n{SERVER}")
    found = arm_features.features_in(file)
    assert found["dotprod"] and found["fullfp16"] and found["lse"]
    assert not found["sve"] and not found["i8mm"]
    file.write_text(f"processor\t: 0\n{SERVER}processor\t: 1\n{BOARD}")
    assert not any(arm_features.features_in(file).values())


def test_a_file_that_says_nothing_of_them_tells_nothing(tmp_path: Path) -> None:
    assert arm_features.features_in(tmp_path / "none") == {}
    (tmp_path / "cpuinfo").write_text("flags\t: fpu sse2\n")
    assert arm_features.features_in(tmp_path / "cpuinfo") == {}


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(BOARD)
    present = {**BOARDS_OWN, **arm_features.features_in(tmp_path / "cpuinfo")}
    monkeypatch.setattr(llvm, "host_features", lambda: present)
    monkeypatch.setattr(llvm, "default_triple", lambda: "aarch64-linux-gnu")
    monkeypatch.setattr(llvm, "host_cpu", lambda: "cortex-a72")


def test_a_board_without_ciphers_runs_code_for_its_processor_and_not_that_of_a_server(board: None) -> None:
    def reasons(cpu: str) -> list[str]:
        return host_supports(canonical_target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": cpu}))

    assert reasons("cortex-a72") == []
    assert reasons("neoverse-n1") == [
        "built for mcpu neoverse-n1, but this machine's cpu lacks dotprod, fullfp16, lse, rcpc, rdm"
    ]
    assert "mattr" not in canonical_target("native").primary.attrs
