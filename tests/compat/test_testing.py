"""Helpers of ``tvm.testing`` do in tests what they did for Relay's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vmkit.compat.testing import parametrize_targets

CONFTEST = """
import vmkit.compat

vmkit.compat.install()
pytest_plugins = ["tvm.testing.plugin"]
"""
TESTS = """
import tvm
import tvm.testing

size, name = tvm.testing.parameters((1, "one"), (2, "two"), ids=["first", "second"])
kind = tvm.testing.parameter("graph", "vm")


def test_of_a_module(size, name, kind):
    assert name == {1: "one", 2: "two"}[size]


class TestClass:
    names = {"relu": 3, "exp": 4}
    op, level = tvm.testing.parameters(*names.items(), ids=names.keys())
    rows, columns = tvm.testing.parameters((1, 2), (3, 4))

    def test_of_a_class(self, target, dev, op, level, rows, columns):
        assert level == self.names[op] and columns == rows + 1
        assert target == "llvm" and dev == tvm.cpu()

    @tvm.testing.parametrize_targets
    def test_for_targets(self, target, dev, rows):
        assert target == "llvm" and dev == tvm.cpu()


@tvm.testing.parametrize_targets("llvm -mcpu=x86-64")
@tvm.testing.known_failing_targets("vulkan")
def test_for_one_target(target):
    assert target == "llvm -mcpu=x86-64"


@tvm.testing.requires_hexagon
def test_of_a_board():
    raise AssertionError("there is no such board")


@tvm.testing.requires_package("numpy")
def test_of_a_package():
    pass
"""


def test_parameters_go_together_and_targets_are_given(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_of_script.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert "12 passed, 1 skipped" in done.stdout, done.stdout


def test_a_test_beside_targets_is_no_target() -> None:
    def test(target: str) -> None:
        pass

    with pytest.raises(ValueError, match="is no target; parametrize_targets takes targets, or one test alone"):
        parametrize_targets("llvm", test)(test)
