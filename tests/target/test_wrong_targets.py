"""What is said about targets that do not exist or do not fit."""

from __future__ import annotations

import pytest
from tvm.target import Target

from vmkit.errors import TargetError
from vmkit.target import TargetPlan, canonical_target

X86 = "llvm -mtriple=x86_64-linux-gnu"


def message(target: object, host: object = None) -> str:
    with pytest.raises(TargetError) as caught:
        canonical_target(target, host)
    return str(caught.value)


def test_every_word_at_fault_is_marked() -> None:
    text = f"{X86} -mcpu=znver44 -mattr=+avx3,fma -num-cores=four"
    assert message(text).splitlines() == [
        f"target {text!r} cannot be used",
        "  num-cores: expected an int, got 'four'",
        "  mcpu: LLVM knows no x86_64 cpu 'znver44'; did you mean 'znver4' or 'znver5' or 'znver3'?",
        "  mattr: LLVM knows no x86_64 feature 'avx3'; did you mean 'avx' or 'avx2'?",
        "  mattr: write '+fma' to turn the feature on or '-fma' to turn it off",
        f"    {text}",
        "    " + " " * (len(X86) + 1) + "^" * 13 + " " + "^" * 16 + " " + "^" * 15,
    ]


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (
            "lvm -mcpu=haswell",
            "kind: there is no target kind 'lvm'; did you mean 'llvm'?\n    lvm -mcpu=haswell\n    ^^^",
        ),
        ("nvidia/nvidia-h101", "kind: there is no target tag 'nvidia/nvidia-h101'; did you mean 'nvidia/nvidia-h100'"),
        ("stackvm", "kind: TVM no longer has target kind 'stackvm'; use 'llvm'"),
        ("sdaccel", "kind: TVM no longer has target kind 'sdaccel'; use 'opencl'"),
        ("vulkan", "kind: the installed TVM has no code generator for 'vulkan'; it has: c, cuda, "),
        ("composite", "kind: the installed TVM has no code generator for 'composite'"),
        ("", "kind: the text is empty; expected a target kind such as 'llvm'"),
        ("-mcpu=haswell", "kind: a target starts with its kind, such as 'llvm'"),
        ("llvm -numcores=4", "numcores: target kind 'llvm' has no such option; did you mean 'num-cores'"),
        ("llvm -num-cores=four", "num-cores: expected an int, got 'four'"),
        ("llvm -num-cores=0", "num-cores: expected at least 1, got 0"),
        ("llvm -fast-math=maybe", "fast-math: expected a bool (0 or 1), got 'maybe'"),
        ("llvm -mcpu", "mcpu: needs a value; write -mcpu=..."),
        ("llvm -num-cores=1 -num-cores=2", "num-cores: given twice"),
        ("llvm mcpu=haswell", "mcpu=haswell: expected an option such as -mcpu=..., got a bare word"),
        ("llvm -system-lib", "system-lib: no longer an option of a target: a target no longer says how its library"),
        (
            "llvm -executor=aot",
            "executor: no longer an option of a target: vmkit always builds for the virtual machine",
        ),
        ("llvm -mtriple=x68_64-linux", "mtriple: LLVM has no back end for 'x68_64'; did you mean 'x86_64'"),
        (f"{X86} -mcpu=cortex-a72", "it is a cpu of aarch64: give its triple, such as -mtriple=aarch64-linux-gnu"),
        ("llvm -jit=fast", "jit: expected one of mcjit, orcjit, got 'fast'"),
        ("llvm -opt-level=7", "opt-level: expected one of 0, 1, 2, 3, got 7"),
        ("llvm -mfloat-abi=both", "mfloat-abi: expected one of soft, hard, got 'both'"),
        ("cuda -arch=80", "CUDA target gets an invalid CUDA arch"),
        ('{"kind": "llvm"', "json: Expecting ',' delimiter at column 16"),
        (
            {"kind": "llvm", "mattr": "+avx2,+fma"},
            'expected a list of str, got str \'+avx2,+fma\'; pass ["+avx2", "+fma"]',
        ),
        ({"kind": "llvm", "num-cores": "4"}, "num-cores: expected an int, got str '4'; pass 4"),
        ({"kind": "llvm", "num-cores": True}, "num-cores: expected an int, got bool True"),
        ({"mcpu": "haswell"}, "a target dict has 'kind' (or 'tag') and its options, or a target for each device"),
        ({"cuda": X86}, "the target for 'cuda' is 'llvm -mtriple=x86_64-linux-gnu', which is for 'cpu'"),
        ({"gpux": "cuda"}, "there is no type of device 'gpux'"),
        ([X86, "c"], "two targets are for device 'cpu', expected one for each type of device: llvm"),
        ([], "the list of targets is empty; expected at least one"),
        ({}, "the target dict is empty"),
        (7, "expected a target as a str, a dict, a tvm.target.Target, or a list of these, got int"),
        (Target({"kind": "llvm", "mcpu": "nosuch"}), "mcpu: LLVM knows no "),
        (f"{X86}, {X86}, {X86}", "names more than one host; expected 'target, host'"),
    ],
    ids=str,
)
def test_wrong_targets(target: object, said: str) -> None:
    assert said in message(target)


def test_native_is_no_other_machine() -> None:
    said = message("native -mtriple=s390x-linux-gnu")
    assert "mtriple: native stands for this machine, which is " in said
    assert "; it cannot be combined with mtriple s390x-linux-gnu\n" in said


def test_a_host_must_be_a_cpu() -> None:
    assert message("cuda -arch=sm_80", "metal").startswith("the host must be a cpu target such as 'llvm', got 'metal")


def test_hosts_must_agree() -> None:
    said = message(f"cuda -arch=sm_80 --host='{X86}'", f"{X86} -mcpu=haswell")
    assert said == (
        "several hosts are given, expected one: "
        "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu; llvm -mtriple=x86_64-linux-gnu"
    )


def test_host_and_cpu_target_share_an_architecture() -> None:
    assert "of different architectures, x86_64 and aarch64" in message(X86, "llvm -mtriple=aarch64-linux-gnu")


def test_data_that_is_no_plan_is_refused() -> None:
    with pytest.raises(TargetError, match="expected the data of a target plan"):
        TargetPlan.from_json({"targets": []})
