"""Whether code that was built for one machine can run on another."""

from __future__ import annotations

import pytest
import tvm

from vmkit import host
from vmkit.host import Host, built_for, this_host

HERE = Host("x86_64-pc-linux-gnu", frozenset({"sse2", "avx2"}))


def test_this_host_runs_its_own_code() -> None:
    assert this_host().cannot_run(this_host()) == ""
    assert this_host().cannot_run(built_for(tvm.target.Target("llvm"))) == ""


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (Host("x86_64-conda-linux-gnu", frozenset({"avx2"})), ""),
        (Host("amd64-linux", frozenset()), ""),
        (Host("x86_64", frozenset()), ""),
        (
            Host("aarch64-linux-gnu", frozenset()),
            "it was built for aarch64 (aarch64-linux-gnu), this machine is x86_64",
        ),
        (
            Host("x86_64-apple-darwin", frozenset()),
            "it was built for darwin (x86_64-apple-darwin), this machine runs linux",
        ),
        (
            Host("x86_64-linux", frozenset({"avx2", "avx512f", "amx-tile"})),
            "it was built for a CPU with amx-tile, avx512f, which this machine's CPU lacks",
        ),
    ],
)
def test_reasons(code: Host, reason: str) -> None:
    assert HERE.cannot_run(code) == reason


def test_a_target_names_its_instruction_sets() -> None:
    features = built_for(
        tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "mtriple": "x86_64-linux-gnu"})
    ).features
    assert {"avx512f", "avx2", "fma", "sse4.2"} <= features
    assert not any(name.startswith(("fast-", "slow-")) for name in features), "tuning hints do not bind"


def test_the_host_half_of_a_target_counts() -> None:
    target = tvm.target.Target("cuda", tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}))
    assert built_for(target).architecture == "aarch64"


def test_what_the_kernel_hides_is_not_there() -> None:
    llvm = {"avx2", "avx512f", "avx512vnni", "lzcnt", "pclmul", "sse3", "sse4.1"}
    cpu_info = "processor : 0\nflags\t\t: avx2 abm pclmulqdq pni sse4_1 avx512_vnni\nbugs : x\n"
    assert host._visible(llvm, cpu_info) == {"avx2", "avx512vnni", "lzcnt", "pclmul", "sse3", "sse4.1"}
    assert host._visible(llvm, "no flags here") == llvm
