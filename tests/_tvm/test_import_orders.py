"""torch and vmkit in one process, whichever is imported first: both compute, and tensors of torch are taken."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import vmkit
from vmkit import relay

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

# What a process does in the order of a test; each leaves `machine` and what is computed is the same.
IMPORT_TORCH = "import torch; torch.ones(2) @ torch.ones(2)"
IMPORT_VMKIT = "import vmkit"
LOAD = "machine = vmkit.VirtualMachine(vmkit.load({path!r})); machine.run(np.ones(2, 'float32'))"
COMPILE = """from vmkit import relay
x = relay.var("x", shape=(2,))
made = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.add(x, x)), target="llvm"))
assert made.run(np.ones(2, "float32")).numpy().tolist() == [2, 2]"""
ORDERS = {
    "torch first": [IMPORT_TORCH, IMPORT_VMKIT, LOAD, COMPILE],
    "torch after vmkit": [IMPORT_VMKIT, IMPORT_TORCH, LOAD, COMPILE],
    "torch after a run": [IMPORT_VMKIT, LOAD, IMPORT_TORCH, COMPILE],
    "torch after a compilation": [IMPORT_VMKIT, COMPILE, IMPORT_TORCH, LOAD],
}
END = """
import json
given = torch.tensor([1.0, -2.0])
print(json.dumps([
    machine.run(given).numpy().tolist(), torch.from_dlpack(machine.run(given)).mul(10).tolist(), given.tolist(),
    machine.run(np.array([3, 4], "float32")).numpy().tolist(), torch.nn.functional.relu(given).tolist(),
]))"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a program that doubles a vector."""
    x = relay.var("x", shape=(2,))
    path = tmp_path_factory.mktemp("saved") / "double.vmx"
    vmkit.compile(relay.Function([x], relay.add(x, x)), target="llvm").export(path)
    return path


# Importing torch takes seconds, so that most orders are left to the night.
_QUICK = ("torch first", "torch after a compilation")


@pytest.mark.parametrize("order", [o if o in _QUICK else pytest.param(o, marks=pytest.mark.nightly) for o in ORDERS])
def test_both_compute_in_any_order(order: str, path: Path) -> None:
    code = "\n".join(["import numpy as np", *ORDERS[order], END]).replace("{path!r}", repr(str(path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[2, -4], [20, -40], [1, -2], [6, 8], [1, 0]]
