"""The table of Relay's passes: what is chosen for a target, and how it reads."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.transform.passes import operators
from vmkit import relay
from vmkit.compiler.options import CompilerOptions
from vmkit.compiler.relay_passes import PASSES, passes_for, passes_text
from vmkit.compiler.stages import evaluate
from vmkit.relay.transform import registry
from vmkit.target import canonical_target


def names(target: str) -> list[str]:
    rows = passes_for(canonical_target(target).primary, evaluate)
    return [each.info.name for level, each in rows if level is not None]


def test_every_row_names_a_pass() -> None:
    assert [row.name for row in PASSES if row.name not in registry.PASSES] == []


def test_a_target_without_vectors_gets_what_all_get() -> None:
    scales = ["BackwardFoldScaleAxis", "ForwardFoldScaleAxis", "FoldConstant"]
    first = ["ShareConstants", "KeepBlockQuantized", "UnpackBlockQuantized", "SimplifyInference", "FoldConstant"]
    assert names("c") == [*first, "FlattenAtrousConv", "FloatProducts", *scales]


@pytest.mark.parametrize(("cpu", "has_tiles"), [("znver4", False), ("sapphirerapids", True)])
def test_only_a_matrix_unit_gets_its_tiles(cpu: str, has_tiles: bool) -> None:
    assert ("PackAMXTiles" in names(f"llvm -mcpu={cpu}")) == has_tiles


@pytest.mark.parametrize(("target", "is_widened"), [("llvm -mcpu=haswell", True), ("cuda -arch=sm_80", False)])
def test_float16_is_computed_in_float32_on_cpus(target: str, is_widened: bool) -> None:
    assert ("WidenFloat16" in names(target)) == is_widened


def test_constants_are_computed_last() -> None:
    assert {names(target)[-1] for target in ("llvm -mcpu=haswell", "cuda -arch=sm_80", "c")} == {"FoldConstant"}


def test_the_table_says_where_each_pass_runs() -> None:
    lines = passes_text().splitlines()
    assert lines[0].split() == ["pass", "level", "on"]
    assert len(lines) == len(PASSES) + 1
    assert [line.split(maxsplit=2) for line in lines if line.startswith("PackAMXTiles")] == [
        ["PackAMXTiles", "2", "cpu with matrix unit"]
    ]


def test_levels_differ_by_what_computes_sums_in_another_way() -> None:
    rows = passes_for(canonical_target("llvm -mcpu=sapphirerapids").primary, evaluate)
    by_level = {
        level: [each.info.name for its, each in rows if CompilerOptions(opt_level=level).runs(each.info.name, its)]
        for level in range(5)
    }
    assert by_level[0] == ["UnpackBlockQuantized", "SimplifyInference", "FlattenAtrousConv"]
    assert [name for name in by_level[2] if name not in by_level[1]] == ["UseWinograd", "PackAMXTiles"]
    assert by_level[2] == by_level[3] == by_level[4]


@pytest.mark.parametrize("level", range(5))
def test_a_convolution_at_each_level(level: int) -> None:
    x = np.random.default_rng(5).standard_normal((1, 16, 12, 12)).astype("float32")
    weight = np.random.default_rng(6).standard_normal((24, 16, 3, 3)).astype("float32")
    data = relay.var("x", shape=(1, 16, 12, 12))
    convolution = relay.nn.conv2d(data, relay.const(weight), padding=(1, 1))
    mod = tvm.IRModule({"main": relay.Function([data], relay.nn.relu(convolution))})
    with vmkit.PassContext(opt_level=level):
        executable = vmkit.compile(mod)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), (2, 3))
    expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight), 0)
    np.testing.assert_allclose(vmkit.VirtualMachine(executable, "cpu").run(x).numpy(), expected, rtol=1e-3, atol=1e-4)


def test_passes_of_relay_that_run_where_they_are_required() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule({"main": relay.Function([x], relay.exp(x) + relay.exp(x))})
    with vmkit.PassContext(opt_level=3, required_pass=["FastMath"]):
        fast, _ = vmkit.VMCompiler().optimize(mod, "llvm")
        machine = vmkit.VirtualMachine(vmkit.compile(mod, "llvm"), vmkit.device("cpu"))
    with vmkit.PassContext(opt_level=4):
        plain, _ = vmkit.VMCompiler().optimize(mod, "llvm")
    with vmkit.PassContext(opt_level=0, required_pass=["EliminateCommonSubexpr"]):
        once, _ = vmkit.VMCompiler().optimize(mod, "llvm")
    assert [operators(m["main"]) for m in (fast, plain, once)] == [
        ["fast_exp", "fast_exp", "add"], ["exp", "exp", "add"], ["exp", "add"],
    ]  # fmt: skip
    value = np.linspace(-3, 3, 6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(machine.run(value).numpy(), 2 * np.exp(value), rtol=1e-3)
