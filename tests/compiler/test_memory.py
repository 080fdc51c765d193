"""How much memory compiling and saving take: weights are not there twice, or once more in what is written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper

from vmkit import relay
from vmkit.compiler.stages import evaluate

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux tells the most that was in use")

_MEMORY = """
import gc, json, sys
from pathlib import Path
import vmkit
from vmkit import relay
from vmkit.frontend.onnx import families
def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) * 1024 for l in lines if l.startswith("VmHWM"))
folder, shapes = Path(sys.argv[1]), json.loads(sys.argv[2])
families.load()
x = relay.var("x", shape=(relay.Any(), 64))
product = relay.nn.dense(x, relay.const([[0.5] * 64] * 64))
vmkit.compile(relay.Function([x], product)).export(folder / "small.vmx")
before = most()
executable = vmkit.compile(folder / "model.onnx", shapes=shapes)
compiled = most()
executable.export(folder / "model.vmx")
print(json.dumps([compiled - before, most() - before]))
"""


def most_in_use(
    folder: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], shape: list[str | int], kind: int = 1
) -> float:
    """Return the most memory that a process takes to compile a model and to save it, as a part of its weights."""
    given, made = (helper.make_tensor_value_info(name, kind, None) for name in ("x0", nodes[-1].output[0]))
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", [given], [made], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "model.onnx")
    command = [sys.executable, "-c", _MEMORY, str(folder), json.dumps({"x0": shape})]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return max(json.loads(done.stdout)) / sum(array.nbytes for array in weights.values())


def test_packed_weights_and_what_they_are_made_of_are_not_there_together(tmp_path: Path) -> None:
    count, size = 12, 2048
    nodes = [helper.make_node("Gemm", [f"x{i}", f"w{i}"], [f"x{i + 1}"], transB=1) for i in range(count)]
    draw = np.random.default_rng(0)
    weights = {f"w{i}": draw.random((size, size), "float32") for i in range(count)}
    assert most_in_use(tmp_path, nodes, weights, ["n", size]) < 1.6


def test_weights_of_tiles_are_transformed_when_a_program_starts(tmp_path: Path) -> None:
    count, channels = 8, 512
    nodes = [
        helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
        for i in range(count)
    ]
    draw = np.random.default_rng(0)
    weights = {f"w{i}": draw.standard_normal((channels, channels, 3, 3), "float32") for i in range(count)}
    assert most_in_use(tmp_path, nodes, weights, ["n", channels, "h", "w"]) < 2.5
    assert (tmp_path / "model.vmx").stat().st_size < 1.1 * sum(array.nbytes for array in weights.values())


def test_packed_rows_and_what_they_are_made_of_are_not_there_together(tmp_path: Path) -> None:
    count, channels = 16, 1024
    nodes = [helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"x{i + 1}"], kernel_shape=[1, 1]) for i in range(count)]
    draw = np.random.default_rng(0)
    weights = {f"w{i}": draw.standard_normal((channels, channels, 1, 1), "float32") for i in range(count)}
    assert most_in_use(tmp_path, nodes, weights, ["n", channels, "h", "w"]) < 1.9


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("count", "size", "most"), [(16, 2048, 1.7), (1, 6144, 2.3)])
def test_matrices_are_turned_round_and_packed_in_parts(
    tmp_path: Path, dtype: str, count: int, size: int, most: float
) -> None:
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    draw = np.random.default_rng(0)
    weights = {f"w{i}": draw.random((size, size), "float32").astype(dtype) for i in range(count)}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    assert most_in_use(tmp_path, nodes, weights, ["n", size], kind) < most


def test_values_that_are_folded_away_leave_no_memory_in_use() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    x = np.full((4096, 4096), 0.5, "float32")
    values = evaluate(tvm.IRModule({"main": relay.Function([], relay.Tuple([relay.tanh(relay.const(x))]))}))
    np.testing.assert_allclose(values[0].numpy(), np.tanh(x), rtol=1e-6)
    with_values = resident()
    values.clear()
    assert with_values - resident() > 0.9 * x.nbytes
