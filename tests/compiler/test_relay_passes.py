"""The table of Relay's passes: what is chosen for a target, and how it reads."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

import vmkit
from tests.relay.transform.passes import operators
from vmkit import relay
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
