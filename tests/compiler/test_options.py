"""Compiler options: names and values are checked, old names translated, nothing ignored."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm.ir.instrument import PassTimingInstrument, pass_instrument
from tvm.s_tir.meta_schedule.database import Database, MemoryDatabase
from tvm.target import Target

from vmkit.compiler.options import CompilerOptions, PassContext, check_context, current_options
from vmkit.compiler.pass_names import RENAMED, known_passes
from vmkit.compiler.surroundings import Surroundings
from vmkit.errors import OptionError


def message(**options: Any) -> str:
    with pytest.raises(OptionError) as caught:
        PassContext(**options)
    return str(caught.value)


def test_the_defaults_are_tvms() -> None:
    assert current_options() == CompilerOptions(opt_level=2, required=frozenset(), disabled=frozenset(), config={})


def test_what_is_entered_is_what_the_compiler_reads() -> None:
    with PassContext(3, disabled_pass=["FuseOps"], required_pass=["FoldConstant"], config={"tirx.noalias": True}):
        options = current_options()
    assert options.opt_level == 3
    assert options.disabled == {"FuseOps"}
    assert options.required == {"FoldConstant"}
    assert dict(options.config) == {"tirx.noalias": True}


@pytest.mark.parametrize(
    ("options", "name", "level", "runs"),
    [
        (CompilerOptions(2), "A", 2, True),
        (CompilerOptions(2), "A", 3, False),
        (CompilerOptions(2, required=frozenset("A")), "A", 3, True),
        (CompilerOptions(4, disabled=frozenset("A")), "A", 0, False),
    ],
)
def test_whether_a_pass_runs(options: CompilerOptions, name: str, level: int, runs: bool) -> None:
    assert options.runs(name, level) is runs


@pytest.mark.parametrize(
    ("old", "value", "new"),
    [
        ("tir.disable_vectorize", True, "tirx.disable_vectorize"),
        ("tir.disable_assert", True, "tirx.disable_assert"),
        ("tir.LoopPartition", {"partition_const_loop": True}, "s_tir.LoopPartition"),
        ("tir.Simplify", {}, "tirx.StmtSimplify"),
        ("relay.FuseOps.max_depth", 3, "relax.FuseOps.max_depth"),
        ("relay.fallback_device_type", 1, "relax.fallback_device_type"),
    ],
)
def test_old_option_names_are_translated(old: str, value: Any, new: str) -> None:
    assert list(PassContext(config={old: value}).config) == [new]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relay.backend.use_meta_schedule", True),
        ("relay.backend.use_auto_scheduler", False),
        ("relay.backend.disable_compile_engine_cache", True),
    ],
)
def test_old_options_that_ask_for_what_is_done_anyway_are_taken(name: str, value: Any) -> None:
    assert not PassContext(config={name: value}).config


def test_everything_wrong_is_said_at_once() -> None:
    said = message(
        opt_level="3",
        required_pass="FuseOps",
        disabled_pass=["relax.FuseOps", "VectoriseLoop"],
        instruments=[3],
        config={"tirx.disable_vectorise": True, "tirx.vtcm_capacity": "x", "tirx.UnrollLoop": {"depth": 3}},
    )
    assert said.splitlines() == [
        "these compiler options cannot be used",
        "  opt_level: expected an int from 0 to 4, got '3'",
        "  required_pass: expected a list of pass names, got str 'FuseOps'; pass ['FuseOps']",
        "  disabled_pass: there is no pass 'relax.FuseOps'; did you mean 'FuseOps' or 'DefuseOps'?",
        "  disabled_pass: there is no pass 'VectoriseLoop'; did you mean 'tirx.VectorizeLoop'?",
        "  instruments[0]: expected a tvm.ir.instrument.PassInstrument, got int",
        "  config: there is no option 'tirx.disable_vectorise'; did you mean 'tirx.disable_vectorize' or"
        " 'tirx.disable_cse_tir' or 'tirx.disable_assert'?",
        "  config: 'tirx.vtcm_capacity' cannot be 'x': expected int",
        "  config: 'tirx.UnrollLoop' cannot be {'depth': 3}: Type `tirx.transform.UnrollLoopConfig` does not have field"
        " `depth`",
    ]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"relay.backend.use_auto_scheduler": True}, "cannot be honoured: the auto-scheduler is gone"),
        ({"tir.add_lower_pass": [(1, None)]}, "cannot be honoured: TVM 0.27 reads it nowhere; observe passes with"),
        (
            {"tir.usmp.use_workspace_io": True},
            "no option 'tir.usmp.use_workspace_io': the unified static memory planner is gone from TVM",
        ),
        ({"relay.moiopt.x": 1}, "no option 'relay.moiopt.x': it belonged to a Relay pass that has no counterpart"),
        ({"tir.noalias": True, "tirx.noalias": True}, "'tirx.noalias' is given twice, once by its old name"),
    ],
)
def test_old_options_without_a_meaning_are_refused(config: dict[str, Any], said: str) -> None:
    assert said in message(config=config)


@pytest.mark.parametrize("level", [-1, 5, True, 2.0, None])
def test_optimisation_levels_are_0_to_4(level: Any) -> None:
    assert f"opt_level: expected an int from 0 to 4, got {level!r}" in message(opt_level=level)


def test_old_pass_names_are_translated() -> None:
    context = PassContext(disabled_pass=["tir.VectorizeLoop", "tir.LoopPartition"])
    assert [str(name) for name in context.disabled_pass] == ["tirx.VectorizeLoop", "s_tir.LoopPartition"]


def test_passes_of_vmkit_are_known_by_their_old_names() -> None:
    context = PassContext(disabled_pass=["UsePanels", "UsePhases", "PackTiles"])
    expected = ["UsePackedGemm", "UseSubpixel", "PackAMXTiles"]
    assert [str(name) for name in context.disabled_pass] == expected
    assert set(RENAMED.values()) <= known_passes() and not set(RENAMED) & known_passes()


def test_a_relay_pass_that_never_runs_may_be_disabled_but_not_required() -> None:
    assert [str(name) for name in PassContext(disabled_pass=["LabelOps"]).disabled_pass] == ["LabelOps"]
    said = message(required_pass=["LabelOps"])
    assert "required_pass: vmkit has no counterpart of Relay's pass 'LabelOps'" in said


def test_a_context_made_by_tvm_is_checked_when_read() -> None:
    with (
        tvm.transform.PassContext(disabled_pass=["tir.VectorizeLoop", "LambdaLft"]),
        pytest.raises(OptionError) as caught,
    ):
        current_options()
    assert str(caught.value).splitlines()[1:] == [
        "  disabled_pass: 'tir.VectorizeLoop' is called 'tirx.VectorizeLoop' today",
        "  disabled_pass: there is no pass 'LambdaLft'; did you mean 'LambdaLift'?",
    ]
    check_context(tvm.transform.PassContext(disabled_pass=["FuseOps"]))


def test_every_pass_that_tvm_can_make_is_known() -> None:
    made = set()
    for function in tvm_ffi.registry.list_global_func_names():
        if ".transform." not in function:
            continue
        try:
            result = tvm_ffi.get_global_func(function)()
        except TypeError:
            continue
        if isinstance(result, tvm.transform.Pass):
            made.add(str(result.info.name))
    assert len(made) > 100
    assert made - known_passes() == {"relax.testing.ApplyEmptyCppMutator"}


def test_passes_of_the_default_pipeline_are_known() -> None:
    names = []

    @pass_instrument
    class Names:
        def run_before_pass(self, module: tvm.IRModule, info: Any) -> None:
            names.append(str(info.name))

    x = tvm.relax.Var("x", tvm.relax.TensorType((4,), "float32"))
    builder = tvm.relax.BlockBuilder()
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(tvm.relax.op.nn.relu(x)))
    with PassContext(instruments=[Names()]):
        tvm.compile(builder.get(), Target("llvm"))
    assert set(names) - known_passes() <= {"sequential", "_pipeline"}


def test_surroundings_reach_another_thread() -> None:
    seen = {}

    def look() -> None:
        with surroundings.entered():
            seen["inside"] = current_options().opt_level, Target.current(), Database.current()
        seen["after"] = current_options().opt_level, Target.current(), Database.current()

    target, database = Target({"kind": "llvm", "mcpu": "haswell"}), MemoryDatabase()
    with PassContext(opt_level=4), target, database:
        surroundings = Surroundings.capture()
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    level, inner_target, inner_database = seen["inside"]
    assert level == 4
    assert inner_target.same_as(target)
    assert inner_database.same_as(database)
    assert seen["after"] == (2, None, None)


def test_surroundings_tell_of_instruments() -> None:
    assert not Surroundings.capture().has_instruments
    with PassContext(instruments=[PassTimingInstrument()]):
        assert Surroundings.capture().has_instruments
