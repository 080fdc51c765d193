"""LLVM is given less time at level 1, and a target that says how hard it shall try is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.target import Target

import vmkit
from vmkit import relay
from vmkit.compiler.all_cores import using_cores
from vmkit.compiler.code_target import code_target
from vmkit.target import canonical_target


def level_of(target: Target) -> object:
    return dict(target.export()).get("opt-level")


@pytest.mark.parametrize(("level", "expected"), [(0, 2), (1, 2), (2, None), (3, None)])
def test_llvm_has_a_level_of_its_own_below_the_default(level: int, expected: int | None) -> None:
    with tvm.transform.PassContext(opt_level=level):
        coded = code_target(canonical_target("native").primary)
    assert level_of(coded) == expected
    if coded.host is not None:
        assert level_of(coded.host) == expected


def test_what_a_target_says_of_llvm_holds() -> None:
    with tvm.transform.PassContext(opt_level=1):
        assert level_of(code_target(Target({"kind": "llvm", "opt-level": 3}))) == 3
        assert "opt-level" not in dict(code_target(Target("c")).export())


def test_results_and_what_is_said_of_the_target_are_those_of_other_levels(tmp_path: Path) -> None:
    x = relay.var("x", shape=(relay.Any(), 9))
    program = relay.Function([x], relay.nn.softmax(relay.sum(relay.exp(x), axis=[1], keepdims=True) + x))
    made = {}
    for level in (1, 2):
        with tvm.transform.PassContext(opt_level=level):
            executable = vmkit.compile(program, "native")
        executable.export(tmp_path / "m.vmx")
        made[level] = vmkit.load(tmp_path / "m.vmx")
    assert str(made[1].target) == str(made[2].target)
    data = np.random.default_rng(0).normal(size=(5, 9)).astype("float32")
    first, second = (vmkit.VirtualMachine(each, "cpu").run(data).numpy() for each in made.values())
    np.testing.assert_allclose(first, second, rtol=1e-5)


def test_a_profile_is_of_the_code_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = relay.var("x", shape=(64, 64))
    program = relay.Function([x], relay.nn.softmax(relay.nn.dense(x, x)))
    with tvm.transform.PassContext(opt_level=1):
        executable = vmkit.compile(program, "native")
    build, levels = tvm.tirx.build, list[object]()
    monkeypatch.setattr(tvm.tirx, "build", lambda mod, to, *rest: levels.append(level_of(to)) or build(mod, to, *rest))
    assert executable.profiling is not None and executable.profiling.marked is not None
    executable.profiling.marked()
    assert levels and set(levels) == {2}


def test_kernels_that_are_written_out_take_less_of_llvms_time_and_are_linked_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, data = relay.var("x", shape=(1, 6, 6, 32)), np.random.default_rng(0).normal(size=(1, 6, 6, 32))
    y, expected = x, data
    for number in range(18):  # enough for several modules
        weight = np.random.default_rng(number).normal(size=(1, 1, 32, 32)).astype("float32") / 5
        y = relay.nn.conv2d(y, relay.const(weight), data_layout="NHWC", kernel_layout="HWIO")
        y = relay.clip(y, -3.0 - number, 3.0 + number)  # a kernel of its own each
        y = relay.sin(y)
        expected = np.sin(np.clip(expected @ weight[0, 0], -3 - number, 3 + number))
    build, levels = tvm.tirx.build, dict[str, object]()

    def seen(mod: tvm.IRModule, to: Target, *rest: object) -> object:
        levels.update((gvar.name_hint, level_of(to)) for gvar in mod.get_global_vars())
        return build(mod, to, *rest)

    monkeypatch.setattr(tvm.tirx, "build", seen)
    with tvm.transform.PassContext(opt_level=1), using_cores(2):
        executable = vmkit.compile(relay.Function([x], y), "native")
    result = vmkit.VirtualMachine(executable, "cpu").run(data.astype("float32")).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
    kinds = ("packed_gemm", "kernel_group", "sin")
    # LLVM optimises nothing in groups without loops, but in what tells their needs.
    assert [{level for name, level in levels.items() if kind in name} for kind in kinds] == [{1}, {0, 1}, {2}]
