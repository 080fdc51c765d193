"""What does a call cost? Forty operators on 32 numbers, where nearly all of the time is the call itself.

The aim is at most a quarter of onnxruntime's time, arrays in and arrays out, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import vmkit
from benchmarks.peers import assert_agree, onnxruntime_run

PAIRS = 20
ALIGNMENT = 64


def chain(batch: int | str) -> onnx.ModelProto:
    """Return a model of adds and relus in turns over float32[batch, 8]."""
    nodes, last = [], "x"
    for index in range(PAIRS):
        nodes += [
            helper.make_node("Add", [last, f"bias{index % 2}"], [f"sum{index}"]),
            helper.make_node("Relu", [f"sum{index}"], [f"relu{index}"]),
        ]
        last = f"relu{index}"
    biases = [
        numpy_helper.from_array(np.full((1, 8), value, "float32"), f"bias{i}") for i, value in enumerate((1, -0.9))
    ]
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 8]) for name in ("x", last))
    graph = helper.make_graph(nodes, "chain", [inputs], [outputs], biases)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def array_at(offset: int) -> np.ndarray:
    """Return an array whose data begins `offset` bytes after a 64-byte boundary."""
    memory = np.zeros(128 + 2 * ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT + offset
    array = memory[start : start + 128].view("float32").reshape(4, 8)
    array[...] = np.random.default_rng(0).standard_normal((4, 8))
    return array


@pytest.fixture(scope="module", params=[4, "n"], ids=["static", "dynamic"])
def model(request: pytest.FixtureRequest) -> onnx.ModelProto:
    return chain(request.param)


@pytest.fixture(scope="module")
def machine(model: onnx.ModelProto) -> vmkit.VirtualMachine:
    return vmkit.VirtualMachine(vmkit.compile(model), "cpu")


@pytest.mark.benchmark(group="call overhead: numpy in, numpy out")
@pytest.mark.parametrize("offset", [0, 16], ids=["aligned", "misaligned"])
def test_arrays(ratio: Callable[..., None], model: onnx.ModelProto, machine: vmkit.VirtualMachine, offset: int) -> None:
    x = array_at(offset)
    peer = onnxruntime_run(model, {"x": x})
    assert_agree(machine.run(x), peer())
    ratio(lambda: np.from_dlpack(machine.run(x)), onnxruntime=peer)


@pytest.mark.benchmark(group="call overhead: tensors ready")
def test_tensors(ratio: Callable[..., None], model: onnx.ModelProto, machine: vmkit.VirtualMachine) -> None:
    x = array_at(0)
    tensor = tvm.runtime.tensor(x)
    peer = onnxruntime_run(model, {"x": x})
    assert_agree(machine.run(tensor), peer())
    ratio(lambda: machine.run(tensor), onnxruntime=peer)
