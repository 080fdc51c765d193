"""What tvmc reads: shapes, targets, options of passes and registries, configurations, trackers, lists of tasks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from tvm.target import Target, TargetKind

from vmkit.cli.tvmc import TVMCException, config_options
from vmkit.cli.tvmc.autotuner import TaskFilterError, filter_tasks, gen_task_list
from vmkit.cli.tvmc.composite_target import get_codegen_by_target, get_codegen_names
from vmkit.cli.tvmc.config_options import convert_config_json_to_cli, get_configs_json_dir, set_json_config_values
from vmkit.cli.tvmc.exceptions import one_line
from vmkit.cli.tvmc.main import parsers
from vmkit.cli.tvmc.pass_config import parse_configs, without_effect
from vmkit.cli.tvmc.pass_list import parse_pass_list_str
from vmkit.cli.tvmc.registry import generate_registry_args, reconstruct_registry_entity
from vmkit.cli.tvmc.shape_parser import parse_shape_string
from vmkit.cli.tvmc.target import (
    generate_target_args,
    parse_target,
    reconstruct_target_args,
    target_from_cli,
    tokenize_target,
)
from vmkit.cli.tvmc.target_options import OPTIONS
from vmkit.cli.tvmc.tracker import tracker_host_port_from_cli
from vmkit.compat.autotvm_task import Task
from vmkit.compat.build_choices import Executor
from vmkit.errors import OptionError
from vmkit.relay import Any as AnySize


def test_shapes_are_read_and_negative_sizes_are_unknown() -> None:
    assert parse_shape_string("input:0:[10,10] gpu_0/data_0:[1, 3]") == {"input:0": [10, 10], "gpu_0/data_0": [1, 3]}
    first, *rest = parse_shape_string("x:[-1,3,224]")["x"]
    assert isinstance(first, AnySize) and rest == [3, 224]


@pytest.mark.parametrize("text", ["x:[a,10]", "x:[5,10 10]", "x:5,10", "x:5:10", "", "x:[1", "n:1..4"])
def test_other_texts_are_no_shapes(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_shape_string(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("foo -opt1=value1 --flag, bar -opt2=value2", ["foo", "-opt1=value1", "--flag", ",", "bar", "-opt2=value2"]),
        ("foo -opt1=+value1 --flag, bar -opt2=t,+v", ["foo", "-opt1=+value1", "--flag", ",", "bar", "-opt2=t,+v"]),
        ("foo -opt1=v,a,l,1 --flag", ["foo", "-opt1=v,a,l,1", "--flag"]),
        ("foo -opt1='v, a', bar", ["foo", "-opt1='v, a'", ",", "bar"]),
        ('foo -opt1="v, a", bar', ["foo", '-opt1="v, a"', ",", "bar"]),
        ("foo-bar1 -opt-1=t-e, baz", ["foo-bar1", "-opt-1=t-e", ",", "baz"]),
        ("cmsis-nn,c", ["cmsis-nn", ",", "c"]),
    ],
)
def test_targets_fall_into_words(text: str, words: list[str]) -> None:
    assert tokenize_target(text) == words


def test_each_target_has_its_options() -> None:
    npu, llvm = parse_target("npu -mode='+a,+b', llvm -device=arm_cpu --flag")
    assert (npu["name"], npu["opts"], npu["is_tvm_target"]) == ("npu", {"mode": "+a,+b"}, False)
    assert (llvm["opts"], llvm["raw"]) == ({"device": "arm_cpu", "flag": True}, "llvm -device=arm_cpu --flag")
    assert parse_target('{"kind": "llvm", "mcpu": "generic"}')[0]["opts"] == {"mcpu": "generic"}


def test_the_second_target_is_the_host_and_options_are_added() -> None:
    target, generators = target_from_cli(
        "npu -size=2, opencl -device=mali, llvm -mtriple=aarch64-linux-gnu",
        {"npu": {"mode": "x"}, "opencl": {"max_num_threads": 404}, "llvm": {"mattr": "+neon,+v8.2a"}},
    )
    assert [(each["name"], each["opts"]) for each in generators] == [("npu", {"size": "2", "mode": "x"})]
    assert str(target).startswith("opencl -keys=mali,opencl,gpu -device=mali")
    assert "-max_num_threads=404" in str(target)
    assert str(target.host) == "llvm -keys=arm_cpu,cpu -mattr=+neon,+v8.2a -mtriple=aarch64-linux-gnu"


def test_a_target_comes_out_of_a_file_of_json(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text(json.dumps({"kind": "llvm", "mcpu": "cortex-m3", "host": {"kind": "llvm"}}))
    assert str(target_from_cli(str(path))[0]) == "llvm -keys=arm_cpu,cpu -mcpu=cortex-m3"
    assert "num-cores" in str(target_from_cli("native")[0])


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("llvm -mcpu=generic, llvm", {}, "Duplicate target definitions are not allowed: llvm"),
        ("opencl, llvm, c", {}, "Only two of the following targets can be used at a time"),
        ("lvm", {}, "The last target needs to be a TVM target, not 'lvm'; did you mean 'llvm'"),
        (
            "llvm",
            {"opencl": {"max_num_threads": 4}},
            "Passed --target-opencl-max_num_threads but did not",
        ),
        ("llvm -mcpus=x", {}, "did you mean 'mcpu'"),
        ("llvm", {"llvm": {"num-cores": "four"}}, "num-cores: expected an int, got 'four'"),
        ("llvm, ", {}, "a target is missing before or after a comma"),
        ("{kind: llvm}", {}, "is no JSON"),
    ],
)
def test_targets_that_cannot_be_used(text: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(TVMCException, match=said):
        target_from_cli(text, more)


def test_the_recorded_options_of_targets_are_those_of_tvm() -> None:
    skipped = {"composite", "cuda_host", "ext_dev", "test"}  # of several targets, or of none that is compiled for
    assert set(OPTIONS) == set(map(str, Target.list_kinds())) - skipped
    for kind, options in OPTIONS.items():
        types = {str(name): str(type_) for name, type_ in TargetKind.options_from_name(kind).items()}
        known = {name: type_ for name, type_ in types.items() if type_ in ("str", "int", "bool", "Array<str>")}
        assert options == {name: type_ for name, type_ in known.items() if name != "kind"}


def test_options_of_targets_are_arguments() -> None:
    parser = argparse.ArgumentParser()
    generate_target_args(parser)
    args = parser.parse_args(["--target=llvm", "--target-llvm-mattr=+fp,+mve", "--target-llvm-num-cores", "4"])
    assert reconstruct_target_args(args) == {"llvm": {"mattr": "+fp,+mve", "num-cores": 4}}


def test_code_generators_cut_a_program_or_say_that_they_are_gone() -> None:
    assert {"ccompiler", "ethos-n", "vitis-ai"} <= set(get_codegen_names())
    with pytest.raises(TVMCException, match="'ethos-n' is gone"):
        get_codegen_by_target("ethos-n")["pass_pipeline"](None)
    with pytest.raises(TVMCException, match="ccompilr is not defined in TVMC; did you mean 'ccompiler'"):
        get_codegen_by_target("ccompilr")


def test_options_of_passes_have_their_types() -> None:
    parsed = parse_configs(["tir.disable_vectorize=True", "relax.FuseOps.max_depth=3", "tir.usmp.enable=1"])
    assert parsed == {"tir.disable_vectorize": True, "relax.FuseOps.max_depth": 3, "tir.usmp.enable": "1"}
    assert without_effect(parsed) == {"tir.disable_vectorize": True, "relax.FuseOps.max_depth": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Supported format is NAME=VALUE"),
        ("tir.disable_vectorize", "Supported format is NAME=VALUE"),
        ("tir.disable_vectorise=1", "did you mean 'tir"),
        ("tir.disable_vectorize=perhaps", "expected a number, true or false"),
        ("tir.LoopPartition=value", "Unsupported configuration"),
        ("tir.add_lower_pass=tir.transform.UnrollLoop,1", "is no number"),
        ("tir.add_lower_pass=1,tir.transform.UnrollLop", "did you mean 'UnrollLoop'"),
    ],
)
def test_options_of_passes_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(TVMCException, match=said):
        parse_configs([text])


def test_a_list_of_passes_is_checked() -> None:
    assert parse_pass_list_str("FoldScaleAxis,tir.VectorizeLoop") == ["FoldScaleAxis", "tir.VectorizeLoop"]
    with pytest.raises(argparse.ArgumentTypeError, match="there is no pass 'FuseOp'; did you mean 'FuseOps'"):
        parse_pass_list_str("FuseOp")


def executor_of(*words: str) -> Executor | None:
    parser = argparse.ArgumentParser()
    generate_registry_args(parser, Executor)
    chosen: Executor | None = reconstruct_registry_entity(parser.parse_args(words), Executor)
    return chosen


def test_an_executor_is_chosen_with_its_options() -> None:
    assert executor_of() is None
    chosen = executor_of("--executor=aot", "--executor-aot-interface-api=c", "--executor-aot-unpacked-api", "True")
    assert chosen == Executor("aot", {"interface-api": "c", "unpacked-api": 1})
    with pytest.raises(TVMCException, match='Executor "woof" is not defined'):
        executor_of("--executor=woof")
    with pytest.raises(TVMCException, match="Passed --executor-graph-link-params but did not specify graph executor"):
        executor_of("--executor=aot", "--executor-graph-link-params=1")


def test_a_configuration_stands_for_arguments() -> None:
    configuration = {
        "targets": [{"kind": "llvm"}, {"kind": "c", "mcpu": "cortex-m55"}],
        "executor": {"kind": "aot", "interface-api": "c"},
        "pass-config": {"tir.disable_vectorize": "1"},
    }
    assert convert_config_json_to_cli(configuration) == [
        {"target_c_mcpu": "cortex-m55"},
        {"target": "llvm, c"},
        {"executor": "aot"},
        {"executor_aot_interface_api": "c"},
        {"pass_config": ["tir.disable_vectorize=1"]},
    ]


def test_a_configuration_s_values_are_those_of_the_options() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt-level", type=int)
    set_json_config_values(parser, [{"opt_level": "2"}])
    assert parser.parse_args([]).opt_level == 2 and parser.parse_args(["--opt-level", "1"]).opt_level == 1
    with pytest.raises(TVMCException, match="has no option 'opt-leve'; did you mean 'opt-level'"):
        set_json_config_values(parser, [{"opt_leve": 2}])


def test_the_folder_of_configurations_is_that_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_options, "CONFIGS_JSON_DIR", None)
    monkeypatch.setenv("TVM_CONFIGS_JSON_DIR", str(tmp_path))
    assert get_configs_json_dir() == str(tmp_path)
    (tmp_path / "small.json").write_text('{"opt-level": 1}')
    found = config_options.read_and_convert_json_into_dict(argparse.Namespace(config="small"))
    assert found == [{"opt_level": 1}]
    with pytest.raises(TVMCException, match="did you mean 'small'"):
        config_options.find_json_file("smal")


def test_a_tracker_has_a_port() -> None:
    assert tracker_host_port_from_cli("1.2.3.4:9191") == ("1.2.3.4", 9191)
    assert tracker_host_port_from_cli("1.2.3.4") == ("1.2.3.4", 9090)
    assert tracker_host_port_from_cli("") == (None, None)
    with pytest.raises(TVMCException, match="expected HOST or HOST:PORT"):
        tracker_host_port_from_cli("board:none")


@pytest.mark.parametrize(
    ("text", "places"),
    [("all", [*range(10)]), ("5", [5]), ("1-3", [1, 2, 3]), ("-2", [0, 1, 2]), ("8-", [8, 9]), ("0,8-9,0", [0, 8, 9])],
)
def test_tasks_are_chosen_by_their_places(text: str, places: list[int]) -> None:
    assert filter_tasks(range(10), text) == (places, False)
    assert filter_tasks(range(10), f"{text},list") == (places, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10", "Task index out of range"),
        ("1-10", "Right-hand side expression out of range"),
        ("-", "Missing lhs or rhs for range expression"),
        ("--", "Malformed range expression"),
        ("some", "expected all, list, or places"),
        ("5-3", "Left-hand side expression out of range"),
    ],
)
def test_places_that_there_are_not(text: str, said: str) -> None:
    with pytest.raises(TaskFilterError, match=said):
        filter_tasks(range(10), text)


def test_tasks_are_listed_with_their_places() -> None:
    shown = gen_task_list([Task("conv", []), Task("d" * 200, [])]).splitlines()
    assert shown == [
        "Available Tasks for tuning:",
        "  0. Task(func_name=conv, args=[], kwargs={}, workload=('conv',)) (len=?)",
        f"  1. {'Task(func_name=' + 'd' * 82}... (len=?)",
    ]
    described = [argparse.Namespace(desc="conv"), argparse.Namespace(desc="d" * 200), argparse.Namespace(desc="")]
    assert gen_task_list(described, enable_autoscheduler=True).splitlines()[1:] == [
        "  0. conv",
        f"  1. {'d' * 97}...",
        "  2. Unnamed",
    ]


def test_values_of_a_configuration_are_checked_as_those_of_the_options_are() -> None:
    parser = parsers()["compile"]
    set_json_config_values(parser, [{"dump_code": ["ll", "tir,relay"]}, {"print_pass_times": True}])
    args = parser.parse_args(["m.onnx"])
    assert (args.dump_code, args.print_pass_times) == (["ll", "tir", "relay"], True)
    for values, said in (
        ({"opt_level": 9}, "opt-level: 9 is none of 0, 1, 2, 3, 4"),
        ({"output_format": "sso"}, "'sso' is none of so, mlf; did you mean 'so'"),
        ({"print_pass_times": "often"}, "expected true or false, got 'often'"),
        ({"opt_level": "high"}, "opt-level: invalid literal"),
    ):
        with pytest.raises(TVMCException, match=said):
            set_json_config_values(parser, [values])


def test_errors_are_one_line_without_what_carets_point_into() -> None:
    assert one_line(OptionError("expected a size\n  x:[1,]\n       ^")) == "expected a size"
    assert one_line(OptionError("these cannot be used:\n  this\n  that")) == "these cannot be used: this; that"
