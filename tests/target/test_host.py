"""Whether this machine can run what was built for a target."""

from __future__ import annotations

import pytest

from vmkit.target import canonical_target, host_supports, llvm
from vmkit.target.check import native_config


@pytest.fixture
def host_without(monkeypatch: pytest.MonkeyPatch) -> object:
    def hide(*features: str) -> None:
        present = {**llvm.host_features(), **dict.fromkeys(features, False)}
        monkeypatch.setattr(llvm, "host_features", lambda: present)
        monkeypatch.setattr(llvm, "default_triple", lambda: "x86_64-linux-gnu")
        monkeypatch.setattr(llvm, "host_cpu", lambda: "skylake-avx512")

    return hide


@pytest.mark.parametrize("target", ["native", "llvm", "c", "cuda -arch=sm_80"])
def test_this_machine_runs_its_own_code(target: str) -> None:
    assert host_supports(canonical_target(target)) == []


def test_another_architecture_is_named() -> None:
    (reason,) = host_supports(canonical_target("llvm -mtriple=s390x-linux-gnu"))
    assert reason.startswith("built for s390x (s390x-linux-gnu), but this machine is ")


def test_another_operating_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "default_triple", lambda: "x86_64-linux-gnu")
    (reason,) = host_supports(canonical_target("llvm -mtriple=x86_64-pc-windows-msvc"))
    assert reason == "built for windows (x86_64-pc-windows-msvc), but this machine runs linux (x86_64-linux-gnu)"


def test_features_that_the_processor_lacks_are_named(host_without) -> None:
    host_without("avx512f", "avx512bw")
    (reason,) = host_supports(canonical_target("llvm -mtriple=x86_64-linux-gnu -mattr=+avx512bw"))
    assert reason == "built for the given mattr, but this machine's cpu lacks avx512bw, avx512f"


def test_features_only_an_operating_system_uses_do_not_count(host_without) -> None:
    host_without("pku", "clwb")
    assert not any("pku" in r or "clwb" in r for r in host_supports(canonical_target("llvm -mcpu=skylake-avx512")))


def test_native_leaves_out_what_a_hypervisor_hides(host_without) -> None:
    host_without("avx512f", "avx512bw")
    config = native_config()
    assert config["mcpu"] == "skylake-avx512"
    assert {"-avx512f", "-avx512bw"} <= set(config["mattr"])
    assert host_supports(canonical_target("native")) == []


@pytest.mark.parametrize(
    ("triple", "architecture"),
    [
        ("amd64-linux", "x86_64"),
        ("i686-linux-gnu", "i386"),
        ("arm64-apple-macos", "aarch64"),
        ("armv7l-linux-gnueabihf", "arm"),
        ("thumbv7em-none-eabi", "thumb"),
        ("ppc64le-linux-gnu", "powerpc64le"),
        ("mipsel-linux-gnu", "mipsel"),
        ("riscv32-unknown-elf", "riscv32"),
        ("avr", "avr"),
        ("xtensa-esp32", None),
        ("", None),
    ],
)
def test_triples_are_known_by_their_first_word(triple: str, architecture: str | None) -> None:
    assert llvm.architecture(triple) == architecture
