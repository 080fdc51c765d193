"""How long does a fresh process take until it has imported vmkit, loaded and run a model, or compiled an operator?

Each call is a process of its own, from its start to its end, the interpreter and numpy included, by turns with one that
does the same with onnxruntime. Files are in the system's cache after the run that warms up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import vmkit
from benchmarks.catalogue import CATALOGUE

IMPORT = "import {package}"
HELP = "from vmkit.cli import main; main(['--help'])"
VMKIT_RUN = """
import json, sys, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.load(sys.argv[1]), "cpu")
print(json.dumps(machine.run(**np.load(sys.argv[2])).numpy().tolist()))
"""
VMKIT_COMPILE = """
import json, sys, numpy as np, vmkit
machine = vmkit.VirtualMachine(vmkit.compile(sys.argv[1], "native"), "cpu")
print(json.dumps(machine.run(**np.load(sys.argv[2])).numpy().tolist()))
"""
VMKIT_COMPILE_RELAY = """
import json, sys, numpy as np, vmkit
from vmkit import relay
x = relay.var("x", shape=(4, 8))
machine = vmkit.VirtualMachine(vmkit.compile(relay.Function([x], relay.exp(x)), "native"), "cpu")
print(json.dumps(machine.run(**np.load(sys.argv[2])).numpy().tolist()))
"""
ONNXRUNTIME_RUN = """
import json, os, sys, numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(os.environ["TVM_NUM_THREADS"])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(json.dumps(session.run(None, dict(np.load(sys.argv[2])))[0].tolist()))
"""


def process(code: str, *arguments: object) -> Callable[[], str]:
    """Return what runs code in a fresh interpreter and gives what it prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return lambda: subprocess.run(command, capture_output=True, text=True, check=True).stdout


def assert_same(one: Callable[[], str], other: Callable[[], str]) -> None:
    """Assert that two processes print the same numbers."""
    np.testing.assert_allclose(json.loads(one()), json.loads(other()), rtol=1e-3, atol=1e-4)


@pytest.fixture
def exp(tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of a model of one operator, and of its inputs."""
    ends = [[onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8])] for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "exp", *ends)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "exp.onnx"))
    np.savez(tmp_path / "inputs.npz", x=np.ones((4, 8), "float32"))
    return tmp_path / "exp.onnx", tmp_path / "inputs.npz"


@pytest.mark.benchmark(group="a fresh process")
def test_import(ratio: Callable[..., None]) -> None:
    ratio(
        process(IMPORT.format(package="vmkit")),
        onnxruntime=process(IMPORT.format(package="onnxruntime")),
        numpy=process(IMPORT.format(package="numpy")),
    )


@pytest.mark.benchmark(group="a fresh process")
def test_help(ratio: Callable[..., None]) -> None:
    assert "usage: vmkit" in process(HELP)()
    ratio(process(HELP), interpreter=process("pass"))


@pytest.mark.benchmark(group="a fresh process")
def test_load_and_first_run(ratio: Callable[..., None], tmp_path: Path) -> None:
    model = CATALOGUE["mnist"].load()
    assert model is not None
    model, inputs = CATALOGUE["mnist"].at(model, (1,))
    onnx.save(model, str(tmp_path / "model.onnx"))
    np.savez(tmp_path / "inputs.npz", **inputs)
    vmkit.compile(model).export(tmp_path / "model.vmx")
    own = process(VMKIT_RUN, tmp_path / "model.vmx", tmp_path / "inputs.npz")
    peer = process(ONNXRUNTIME_RUN, tmp_path / "model.onnx", tmp_path / "inputs.npz")
    assert_same(own, peer)
    ratio(own, onnxruntime=peer)


@pytest.mark.parametrize("code", [VMKIT_COMPILE, VMKIT_COMPILE_RELAY], ids=["onnx", "relay"])
@pytest.mark.benchmark(group="a fresh process")
def test_first_compile_of_one_operator(ratio: Callable[..., None], exp: tuple[Path, Path], code: str) -> None:
    own, peer = process(code, *exp), process(ONNXRUNTIME_RUN, *exp)
    assert_same(own, peer)
    ratio(own, onnxruntime=peer)
