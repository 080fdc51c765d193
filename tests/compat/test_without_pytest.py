"""Relay's names are there without pytest, which only tests need."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys

sys.modules["pytest"] = None  # as if it were not installed

import vmkit.compat

vmkit.compat.install()

import tvm
import tvm.testing
from tvm import relay

x = relay.var("x", shape=(2,))
result = relay.create_executor("graph").evaluate(relay.Function([x], x + x))([1.0, 2.0])
tvm.testing.assert_allclose(result.numpy(), [2.0, 4.0])
assert [str(target) for target, _ in tvm.testing.enabled_targets()][0] == "llvm"


def said(use):
    try:
        use()
    except ImportError as error:
        return str(error)
    raise AssertionError("there was no error")


def test(target):
    pass


fixture = "this part of tvm.testing needs pytest.fixture, but pytest is not installed: pip install pytest"
assert said(lambda: tvm.testing.parameter("graph", "vm")) == fixture
assert said(lambda: tvm.testing.parameters((1, 2), (3, 4))) == fixture
assert "pytest.mark.skipif" in said(lambda: tvm.testing.requires_gpu(test))
assert "pytest.mark.parametrize" in said(lambda: tvm.testing.parametrize_targets("llvm")(test))
assert "pytest" in said(lambda: __import__("tvm.testing.plugin"))
assert sys.modules["pytest"] is None
"""


def test_install_works_and_what_needs_pytest_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
