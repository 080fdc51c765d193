"""Every benchmark can be collected, and what it checks before it times holds."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import tvm

import vmkit
from benchmarks import summary
from benchmarks.llama import LlamaSizes, llama, llama_inputs
from benchmarks.mobilenet import mobilenet_v2
from benchmarks.operators import __main__ as operators
from benchmarks.peers import assert_agree, onnxruntime_session

TOP = Path(__file__).parents[1]
FILES = sorted(path.name for path in (TOP / "benchmarks").glob("bench_*.py"))
# What is quick of each file, as pytest's -k selects it. A GPU is not at hand everywhere.
QUICK = {
    "bench_call_overhead.py": "dynamic",
    "bench_compile_scaling.py": "125 and (chain or closures or lets)",
    "bench_compile_time.py": "mnist",
    "bench_four_bits.py": "1024x2816-32-4",
    "bench_kernels.py": "transpose or multiply_adds or (test_bandwidth and L2)",
    "bench_libraries.py": "64x64x64",
    "bench_memory.py": "mnist",
    "bench_models.py": "dynamic and (mnist or (tagger and 16))",
    "bench_networks.py": "mlp",
    "bench_process_start.py": "help or import",
    "bench_relay_scaling.py": "1000",
}
NEEDS_A_GPU = {"bench_cuda.py"}


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-disable", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)


def test_every_file_has_a_quick_part() -> None:
    assert set(QUICK) | NEEDS_A_GPU == set(FILES)


def test_the_results_that_are_timed_are_right() -> None:
    quick = " or ".join(f"({name.removesuffix('.py')} and ({part}))" for name, part in QUICK.items())
    result = pytest_run("benchmarks", "-k", quick)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout
    assert int(result.stdout.split(" passed")[0].split()[-1]) >= 2 * len(QUICK) - 2  # memory of one model, one product


@pytest.mark.skipif(tvm.cuda(0).exist, reason="there is a GPU, so its figures are not skipped")
def test_without_a_gpu_its_figures_say_so() -> None:
    result = pytest_run("benchmarks/bench_cuda.py", "-rs")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "TVM finds no CUDA device on this machine" in result.stdout


def test_mobilenet_has_the_papers_size() -> None:
    model = mobilenet_v2()
    onnx.checker.check_model(model)
    # It is known by 3,504,872 parameters, of which the scales and shifts of 17,056 channels are here one bias each.
    # Clip has two limits.
    assert sum(math.prod(t.dims) for t in model.graph.initializer) == 3_504_872 - 17_056 + 2
    assert sum(node.op_type == "Conv" for node in model.graph.node) == 52


def test_a_llama_of_4_bits_is_right_from_any_past_on() -> None:
    sizes = LlamaSizes(layers=1, hidden=64, heads=4, kept_heads=2, inner=96, words=64, accuracy=0)
    model = llama(sizes)
    machine, session = vmkit.VirtualMachine(vmkit.compile(model), "cpu"), onnxruntime_session(model)
    for new, past in ((1, 5), (3, 0)):
        inputs = llama_inputs(new, past, sizes)
        assert_agree(list(machine.run(**inputs)), session.run(None, inputs))


DOCUMENT = {
    "benchmarks": [
        {
            "group": "latency: net",
            "name": f"test_latency[net-1-{kind}]",
            "stats": {"median": seconds},
            "extra_info": {
                "threads": 1,
                "model": "net",
                "family": "small",
                "compiled_for": kind,
                "peers": {"onnxruntime": [2e-3, seconds / 2e-3]},
            },
        }
        for kind, seconds in (("static", 1e-3), ("dynamic", 4e-3))
    ]
}
TABLES = """\
| latency: net | threads | vmkit | of onnxruntime's |
| --- | --- | --- | --- |
| 1-static | 1 | 1.00 ms | 0.50 of 2.00 ms |
| 1-dynamic | 1 | 4.00 ms | 2.00 of 2.00 ms |

| geometric mean of ratios to onnxruntime | static, 1 thread | dynamic, 1 thread |
| --- | --- | --- |
| small | 0.50 of 1 | 2.00 of 1 |
| all | 0.50 of 1 | 2.00 of 1 |
"""


def test_figures_are_summed_up_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    summary.main([str(file)])
    assert capsys.readouterr().out == TABLES


def test_geometric_means_run_over_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(DOCUMENT)
    for name, threads in (("one", 1), ("two", 2)):
        (tmp_path / name).write_text(text.replace('"threads": 1', f'"threads": {threads}'), encoding="utf-8")
    summary.main([str(tmp_path / "one"), str(tmp_path / "two")])
    columns = "| static, 1 thread | dynamic, 1 thread | static, 2 threads | dynamic, 2 threads |"
    assert columns in capsys.readouterr().out


def test_operators_are_compared_at_known_and_unknown_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert operators.main(["--seconds", "0", "Trilu lower"]) == 0
    table, tail = capsys.readouterr().out.split("\n\n")
    name, *figures = table.splitlines()[2].strip("|").split("|")
    assert name.strip() == "Trilu lower"
    assert all(float(figure) > 0 for figure in figures) and len(figures) == 3
    assert tail.startswith("1 cases, geometric mean ")


@pytest.mark.nightly
def test_every_operator_that_is_timed_is_right() -> None:
    assert operators.main(["--seconds", "0"]) == 0


@pytest.mark.nightly
def test_every_result_that_is_timed_is_right() -> None:
    result = pytest_run("benchmarks")
    assert result.returncode == 0, result.stdout + result.stderr


def test_benchmarks_are_not_part_of_the_tests(pytestconfig: pytest.Config) -> None:
    looked_in = [TOP / folder for folder in pytestconfig.getini("testpaths")]
    assert looked_in and all(folder.is_dir() for folder in looked_in)
    assert not [name for name in FILES for folder in looked_in if (TOP / "benchmarks" / name).is_relative_to(folder)]
