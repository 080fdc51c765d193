"""Code is generated with what is better avoided on a processor, and the target that users see says nothing of it."""

from __future__ import annotations

import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.target import canonical_target
from vmkit.target.preferences import with_preferences

NO_GATHERS = "+prefer-no-gather"


def attributes(target: tvm.target.Target) -> list[str]:
    return [str(each) for each in target.attrs.get("mattr", ())]


@pytest.mark.parametrize("cpu", ["znver4", "znver3"])
def test_gathers_are_avoided_where_they_are_slow(cpu: str) -> None:
    target = canonical_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu} -num-cores=2 -mattr=-sse4a").primary
    preferred = with_preferences(target)
    assert attributes(preferred) == ["-sse4a", NO_GATHERS]
    assert preferred.host is not None
    assert attributes(preferred.host) == ["-sse4a", NO_GATHERS]  # of which the code generator asks the host's
    assert int(preferred.attrs["num-cores"]) == 2
    assert attributes(target) == ["-sse4a"]


@pytest.mark.parametrize(
    "text",
    [
        "llvm -mtriple=x86_64-linux-gnu",
        "llvm -mtriple=x86_64-linux-gnu -mcpu=rocketlake",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1",
        "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -mattr=-prefer-no-gather",  # as the user says
        "c",
    ],
)
def test_other_targets_are_as_they_are(text: str) -> None:
    target = canonical_target(text).primary
    assert with_preferences(target) is target


def test_kernels_are_built_so_and_their_executable_says_what_was_asked_for() -> None:
    table, at = relay.var("table", shape=(64,)), relay.var("at", shape=(4096,), dtype="int32")
    program = relay.Function([table, at], relay.take(table, at))
    text = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"
    executable = vmkit.compile(program, text)
    assert executable.target is not None
    assert attributes(executable.target) == []
    assert executable.lib is not None
    assert "vpgather" not in str(executable.lib.inspect_source("asm"))
    other = vmkit.compile(program, f"{text} -mattr=-prefer-no-gather")
    assert other.lib is not None
    assert "gather" in str(other.lib.inspect_source("asm"))
