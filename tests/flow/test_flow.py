"""Compiling as a step of a flow: options by mlonmcu's keys, arguments, artifacts and failures."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from vmkit.cli.tvmc import TVMCPackage
from vmkit.cli.tvmc.option_states import MLONMCU
from vmkit.errors import CompileError, CompileTimeoutError, ModelError, OptionError
from vmkit.flow import ArtifactFormat, Flow, FlowOptions

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 4), float32]) { nn.relu(add(%x, %x)) }'


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.relay"
    path.write_text(TEXT)
    return path


def test_every_key_of_mlonmcu_is_an_option_or_of_another_installation() -> None:
    keys = {each.name for each in dataclasses.fields(FlowOptions)}
    others = {"moiopt", "disable_legalize"}  # passes that were never TVM's
    assert {key for key in MLONMCU if not key.startswith("tvm.")} - keys == others


def test_options_are_read_from_texts_and_values() -> None:
    given = {
        "tvmllvm.opt_level": "2",
        "print_outputs": "0",
        "target_mcpu": "None",
        "disabled_passes": "FuseOps,FoldConstant",
        "dump": ["relay"],
        "extra_pass_config": "{'relax.FuseOps.max_depth': 2}",
        "disable_vectorize": "true",
    }
    options = FlowOptions.parsed(given)
    assert (options.opt_level, options.print_outputs, options.target_mcpu) == (2, False, None)
    assert (options.disabled_passes, options.dump) == (["FuseOps", "FoldConstant"], ["relay"])
    assert (options.extra_pass_config, options.disable_vectorize) == ({"relax.FuseOps.max_depth": 2}, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"opt_levl": 3}, "there is no 'opt_levl'; did you mean 'opt_level'"),
        ({"opt_level": "three"}, "opt_level: expected a number, got 'three'"),
        ({"print_outputs": "maybe"}, "expected True or False"),
        ({"extra_pass_config": "{1"}, "is no value"),
        ({"custom_unroll": "1"}, "custom_unroll: LLVM as it is"),
        ({"generate_wrapper": "1"}, "leave it at auto"),
        ({"fmt": "tar"}, "fmt: there is no 'tar'"),
        ({"desired_layout": "NHWC", "desired_layout_map": {"nn.conv2d": "NHWC"}}, "both say layouts"),
    ],
)
def test_options_that_cannot_be_used(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        FlowOptions.parsed(given)


def test_options_are_arguments_of_tvmc(model: Path, tmp_path: Path) -> None:
    (tmp_path / "records.json").touch()
    flow = Flow(
        {
            "target_mcpu": "cortex-m55",
            "extra_targets": "ccompiler",
            "desired_layout_map": {"nn.conv2d": "NHWC"},
            "disabled_passes": ["FuseOps"],
            "tvmc_extra_args": "-v",
        }
    )
    flow.load_model(model, {"x": (2, 4)})
    flow.set_tuning_records(tmp_path / "records.json")
    words = f"compile {model} --target |ccompiler, c| --target-c-mcpu=cortex-m55 --pass-config tir.disable_vectorize=1"
    words += " --disabled-pass FuseOps --desired-layout NHWC --desired-layout-ops nn.conv2d --opt-level 3"
    words += f" --output o.tar -f so --input-shapes x:[2,4] --tuning-records {tmp_path / 'records.json'} -v"
    expected = [word for part in words.split("|") for word in ([part] if "ccompiler" in part else part.split())]
    assert flow.get_compile_args("o.tar") == expected
    with pytest.raises(OptionError, match="targets of kind c have no mattr"):
        Flow({"target_mattr": "+neon"}).get_target_details()
    with pytest.raises(ModelError, match="call load_model"):
        Flow().get_compile_args("o.tar")


def test_a_model_becomes_artifacts_and_metrics(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Flow(
        {"target": "llvm", "executor": "graph", "dump": "relay,ll", "print_outputs": 1, "tvmc_extra_args": "-v"}
    )
    flow = Flow(dataclasses.replace(flow.options, num_threads=1, extra_pass_config={"tir.usmp.enable": False}))
    flow.load_model(model)
    artifacts, metrics = flow.generate()
    made = {artifact.name: artifact for artifact in artifacts["default"]}
    assert set(made) == {f"default.{suffix}" for suffix in ("tar", "json", "graph", "params", "relay", "ll")} | {
        "tvmc_compile_out.log"
    }
    assert made["default.tar"].format is ArtifactFormat.ARCHIVE and "nn.relu" in made["default.relay"].text
    assert "tir.usmp.enable: no effect" in capsys.readouterr().out == made["tvmc_compile_out.log"].text
    assert metrics["default"]["Build Stage Time [s]"] > 0
    assert len(flow.export(tmp_path)) == len(made)
    assert TVMCPackage(str(tmp_path / "default.tar")).executor_type == "graph"


@pytest.mark.parametrize(("executor", "beside"), [("aot", {"params"}), ("graph", {"params", "graph"})])
def test_c_has_a_workspace_of_a_known_size(executor: str, beside: set[str], model: Path) -> None:
    flow = Flow({"fmt": "mlf", "executor": executor, "num_threads": 1})
    flow.load_model(model)
    artifacts, metrics = flow.generate()
    assert artifacts["default"][0].format is ArtifactFormat.MLF
    names = {f"default.{suffix}" for suffix in beside | {"tar", "json"}}
    assert {each.name for each in artifacts["default"]} == names | {"tvmc_compile_out.log"}
    assert metrics["default"]["Workspace Size [B]"] >= 0


@pytest.mark.parametrize(("is_unpacked", "interface"), [(False, "packed"), (True, "c")])
def test_an_entry_in_c_is_packed_where_it_is_not_said_to_be_unpacked(
    is_unpacked: bool, interface: str, model: Path
) -> None:
    flow = Flow({"fmt": "mlf", "executor": "aot", "unpacked_api": is_unpacked})
    flow.load_model(model)
    words = flow.get_compile_args("o.tar")
    assert words[words.index("--executor-aot-interface-api") + 1] == interface


def test_a_compiler_that_fails_or_takes_too_long_is_an_error(model: Path, tmp_path: Path) -> None:
    flow = Flow({"target": "llvm", "disabled_passes": "FuseOp"})
    flow.load_model(model)
    with pytest.raises(CompileError, match=r"ended with 4: Error: .* did you mean 'FuseOps'"):
        flow.generate()
    slow = tmp_path / "slow.py"
    # What it started holds its output open, and has to end with it.
    slow.write_text("import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])")
    flow = Flow({"target": "llvm", "tvmc_custom_script": str(slow)})
    flow.load_model(model)
    start = time.monotonic()
    with pytest.raises(CompileTimeoutError, match=r"not compiled in 0\.5 s"):
        flow.generate(timeout=0.5)
    assert time.monotonic() - start < 30
