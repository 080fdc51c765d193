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
        ["PackAMXTiles", "1", "cpu with matrix unit"]
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


def test_the_first_level_has_all_passes_and_shares_the_kernels_that_take_longest_to_build() -> None:
    assert {row.level for row in PASSES} == {None, 0, 1}
    shared = {"ExtendConcatenations", "FuseInvertedResiduals", "PadChannels", "UsePackedGemm", "UseWinograd"}
    assert {row.name for row in PASSES if row.shares_kernels} == shared


def test_passes_of_the_optimizer_are_registered_at_the_level_of_their_row() -> None:
    own = [row for row in PASSES if registry.PASSES[row.name].__module__.startswith("vmkit.optimize.")]
    target = canonical_target("llvm -mcpu=sapphirerapids").primary
    levels = {(r.name, registry.PASSES[r.name](**r.told(target, evaluate)).info.opt_level, r.level) for r in own}
    assert "UsePackedGemm" in {name for name, _, _ in levels}
    assert [row for row in levels if row[2] is not None and row[1] != row[2]] == []


def network() -> tuple[relay.Function, dict[str, np.ndarray], np.ndarray]:
    """Return a convolution, its scale and offset, a product and a softmax; inputs, and what numpy makes of them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1, 32, 30, 30)).astype("float32")
    weight = (random.normal(size=(32, 32, 3, 3)) / 17).astype("float32")
    scale, offset = random.uniform(0.5, 1.5, (2, 32, 1, 1)).astype("float32")
    dense = (random.normal(size=(10, 32)) / 6).astype("float32")
    given = relay.var("x", shape=x.shape)
    y = relay.nn.conv2d(given, relay.const(weight), padding=(1, 1), channels=32, kernel_size=(3, 3))
    y = relay.nn.relu(y * relay.const(scale) + relay.const(offset))
    y = relay.nn.softmax(relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), relay.const(dense)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    convolved = np.einsum("nchwij,ocij->nohw", windows.astype("float64"), weight)
    sums = np.maximum(convolved * scale + offset, 0).mean(axis=(2, 3)) @ dense.T
    powers = np.exp(sums - sums.max())
    return relay.Function([given], y), {"x": x}, powers / powers.sum()


@pytest.mark.parametrize("level", range(5))
def test_values_are_the_same_at_every_level(level: int) -> None:
    function, inputs, expected = network()
    with vmkit.PassContext(opt_level=level):
        machine = vmkit.VirtualMachine(vmkit.compile(tvm.IRModule({"main": function})), "cpu")
    np.testing.assert_allclose(machine.run(**inputs).numpy(), expected, rtol=1e-3, atol=1e-4)


def test_what_each_level_makes_of_a_convolution() -> None:
    function, _, _ = network()
    made = []
    for level in range(5):
        with vmkit.PassContext(opt_level=level):
            optimized, _ = vmkit.VMCompiler().optimize(tvm.IRModule({"main": function}), "llvm -mcpu=znver4")
        made.append(next(name for name in operators(optimized["main"]) if "conv2d" in name or "gemm" in name))
    plain, *tiles = made
    assert plain == "nn.conv2d"
    assert tiles == ["nn.contrib_conv2d_winograd_fused"] * 4
