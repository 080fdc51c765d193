"""Every form of naming a target arrives at the same plan."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tvm
from tvm.target import Target

from vmkit.errors import TargetError
from vmkit.target import TargetPlan, canonical_target, command_line, llvm

X86 = "-mtriple=x86_64-linux-gnu"
SKYLAKE = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "skylake-avx512", "num-cores": 4}


@pytest.mark.parametrize(
    "form",
    [
        f"llvm {X86} -mcpu=skylake-avx512 -num-cores=4",
        f"llvm --mcpu skylake-avx512 -num-cores 4 -{X86}",
        "llvm -target=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=4",
        SKYLAKE,
        json.dumps(SKYLAKE),
        Target(SKYLAKE),
        tvm.runtime.convert(SKYLAKE),
        [SKYLAKE],
        {"cpu": SKYLAKE},
        {1: SKYLAKE},
        {tvm.tirx.IntImm("int32", 1): SKYLAKE},
        {tvm.cpu(0): SKYLAKE},
    ],
    ids=lambda form: type(form).__name__ + ":" + str(form)[:24],
)
def test_all_forms_of_one_target_agree(form: object) -> None:
    plan = canonical_target(form)
    assert str(plan) == "llvm -mcpu=skylake-avx512 -mtriple=x86_64-linux-gnu -num-cores=4"
    assert plan == canonical_target(SKYLAKE)
    assert int(plan.primary.attrs["num-cores"]) == 4


def test_lists_in_the_command_line_are_split_at_commas() -> None:
    target = canonical_target(f"llvm {X86} -mattr=+avx2,+fma -libs=mkl").primary
    assert [str(item) for item in target.attrs["mattr"]] == ["+avx2", "+fma"]
    assert [str(item) for item in target.attrs["libs"]] == ["mkl"]


@pytest.mark.parametrize(("text", "value"), [("-fast-math", True), ("-fast-math=1", True), ("-fast-math=0", False)])
def test_a_flag_needs_no_value(text: str, value: bool) -> None:
    assert bool(canonical_target(f"llvm {X86} {text}").primary.attrs["fast-math"]) is value


def test_a_cpu_target_is_its_own_host() -> None:
    plan = canonical_target(SKYLAKE)
    assert str(plan.host.attrs["mcpu"]) == "skylake-avx512"
    assert plan.host.host is None
    assert str(plan.primary.host) == str(plan.host)


@pytest.mark.parametrize(
    ("target", "host"),
    [
        (f"cuda -arch=sm_80 --host='llvm {X86} -mcpu=haswell'", None),
        (f"cuda -arch=sm_80, llvm {X86} -mcpu=haswell", None),
        ("cuda -arch=sm_80", f"llvm {X86} -mcpu=haswell"),
        ({"kind": "cuda", "arch": "sm_80", "host": f"llvm {X86} -mcpu=haswell"}, None),
        (Target({"kind": "cuda", "arch": "sm_80"}), {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"}),
    ],
)
def test_a_host_can_be_given_in_every_form(target: object, host: object) -> None:
    plan = canonical_target(target, host)
    assert command_line(plan.host) == "llvm -mcpu=haswell -mtriple=x86_64-linux-gnu"
    assert str(plan).endswith("--host='llvm -mcpu=haswell -mtriple=x86_64-linux-gnu'")


def test_a_device_without_a_host_is_driven_by_this_machine() -> None:
    plan = canonical_target("cuda -arch=sm_80")
    assert str(plan.host.attrs["mtriple"]) == llvm.default_triple()


def test_no_target_means_this_machine() -> None:
    assert canonical_target() == canonical_target("native")
    assert canonical_target().primary.attrs["num-cores"] == llvm.host_cores()


def test_no_target_means_the_surrounding_one() -> None:
    with Target({"kind": "cuda", "arch": "sm_80"}):
        assert str(canonical_target().primary.attrs["arch"]) == "sm_80"


def test_options_after_native_win() -> None:
    plan = canonical_target("native -num-cores=1")
    assert plan.primary.attrs["num-cores"] == 1
    assert str(plan.primary.attrs["mcpu"]) == llvm.host_cpu()


def test_mcpu_native_is_this_cpu() -> None:
    assert canonical_target("llvm -mcpu=native") == canonical_target("native")


def test_a_tag_keeps_its_name() -> None:
    plan = canonical_target("nvidia/nvidia-h100")
    assert plan.primary.tag == "nvidia/nvidia-h100"
    assert command_line(plan.primary) == "nvidia/nvidia-h100"
    changed = canonical_target("nvidia/nvidia-h100 -max_num_threads=512").primary
    assert command_line(changed) == "nvidia/nvidia-h100 -max_num_threads=512"


def test_a_tag_brings_its_host() -> None:
    assert str(canonical_target("raspberry-pi/4b-aarch64").host.attrs["mcpu"]) == "cortex-a72"


def test_several_targets_one_for_each_type_of_device() -> None:
    plan = canonical_target({"cuda": "cuda -arch=sm_80", "cpu": SKYLAKE})
    assert list(plan.by_device) == ["cuda", "cpu"]
    assert str(plan.primary.kind.name) == "llvm"
    assert str(plan.for_device("cuda").attrs["arch"]) == "sm_80"
    assert all(str(target.host) == str(plan.host) for target in plan.targets)
    with pytest.raises(TargetError, match="there is no target for device 'metal', only for: cuda, cpu"):
        plan.for_device("metal")


@pytest.mark.parametrize(
    "form",
    ["native", "nvidia/nvidia-h100 -max_num_threads=512", "raspberry-pi/4b-aarch64", "c -march=armv7e-m", "metal"],
)
def test_plans_survive_json_and_targets_survive_their_command_line(form: str) -> None:
    plan = canonical_target(form)
    assert TargetPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert canonical_target(command_line(plan.primary), plan.host) == plan


def test_a_plan_is_its_own_canonical_form() -> None:
    plan = canonical_target("cuda -arch=sm_80", SKYLAKE)
    assert canonical_target(plan) == plan
    assert hash(canonical_target(plan)) == hash(plan)


def test_devices_of_one_type_are_told_apart_by_a_number() -> None:
    plan = canonical_target({"cpu": "llvm", tvm.cpu(1): "llvm -mcpu=haswell"})
    assert plan.devices == ((1, 0), (1, 1)) and list(plan.by_device) == ["cpu", "cpu:1"]
    assert str(plan).endswith("llvm -mcpu=haswell -mtriple=" + plan.host.attrs["mtriple"] + " on cpu:1")
    assert plan.for_device("cpu:1").attrs["mcpu"] == "haswell" and plan.primary.same_as(plan.targets[0])
    assert canonical_target(plan) == plan == TargetPlan.from_json(plan.to_json()) != canonical_target("llvm")
    with pytest.raises(TargetError, match="there is no target for device 'cpu:2', only for: cpu, cpu:1"):
        plan.for_device("cpu:2")


@pytest.mark.nightly  # one of three thousand such readings went wrong
def test_threads_that_read_a_target_at_once_read_the_same() -> None:
    interval = sys.getswitchinterval()
    barrier = threading.Barrier(3)

    def text(target: Target) -> str:
        barrier.wait()
        return str(target)

    try:
        sys.setswitchinterval(1e-5)
        with ThreadPoolExecutor(3) as pool:
            for cores in range(1, 15_000):
                target = canonical_target({**SKYLAKE, "num-cores": cores}).primary
                texts = list(pool.map(text, [target if cores % 2 else target.host] * 3))
                assert len(set(texts)) == 1, texts
    finally:
        sys.setswitchinterval(interval)
