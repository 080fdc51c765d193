"""Every benchmark can be collected, and what it checks before it times holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
FILES = sorted(path.name for path in (TOP / "benchmarks").glob("bench_*.py"))
# What is quick of each file, as pytest's -k selects it.
QUICK = {
    "bench_call_overhead.py": "dynamic",
    "bench_compile_time.py": "mnist",
    "bench_models.py": "mnist and dynamic",
    "bench_networks.py": "mlp or lstm",
    "bench_relay_scaling.py": "1000",
    "bench_transformers.py": "tagger and 16",
}


def pytest_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-disable", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=TOP, env=environment, capture_output=True, text=True, check=False)


def test_every_file_has_a_quick_part() -> None:
    assert set(QUICK) == set(FILES)


def test_the_results_that_are_timed_are_right() -> None:
    quick = " or ".join(f"({name.removesuffix('.py')} and ({part}))" for name, part in QUICK.items())
    result = pytest_run("benchmarks", "-k", quick)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout
    assert int(result.stdout.split(" passed")[0].split()[-1]) >= 2 * len(FILES)


@pytest.mark.nightly
def test_every_result_that_is_timed_is_right() -> None:
    result = pytest_run("benchmarks")
    assert result.returncode == 0, result.stdout + result.stderr


def test_benchmarks_are_not_part_of_the_tests() -> None:
    listed = pytest_run("--collect-only").stdout
    assert "benchmarks/" not in listed.replace("tests/test_benchmarks.py", "")
