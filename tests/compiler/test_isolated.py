"""Compiling in another process gives what compiling here gives, and what goes wrong there is an error here."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm.ir.instrument import PassTimingInstrument

import vmkit
from tests.isolation import jobs
from vmkit import relay
from vmkit.compiler import isolated
from vmkit.errors import CompileError, CompileTimeoutError, ModelError, OptionError, TargetError, VMKitError
from vmkit.tophub import Record, Records, Workload, choosing

X = np.array([[1, -2], [3, -4]], "float32")


def onnx_model() -> onnx.ModelProto:
    """Return ``y = relu(x) + w`` for ``x: float32[n, 2]``."""
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy"}
    weight = onnx.numpy_helper.from_array(np.array([10, 20], "float32"), "w")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "w"], ["y"])]
    graph = helper.make_graph(nodes, "graph", [values["x"]], [values["y"]], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def relay_function() -> relay.Function:
    x, w = relay.var("x", shape=(relay.Any(), 2)), relay.var("w", shape=(2,))
    return relay.Function([x, w], relay.add(relay.nn.relu(x), w))


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(model, folder / "small.onnx")
    return folder / "small.onnx"


@pytest.mark.parametrize(
    "given",
    [saved, lambda model, _: model, lambda model, _: model.SerializeToString()],
    ids=["path", "ModelProto", "bytes"],
)
def test_models_of_onnx(given: Callable[[onnx.ModelProto, Path], Any], tmp_path: Path) -> None:
    executable = vmkit.compile(given(onnx_model(), tmp_path), "llvm", isolated=True)
    here = vmkit.compile(given(onnx_model(), tmp_path), "llvm")
    assert str(executable.signature) == str(here.signature) == "main(x: float32[n, 2]) -> (y: float32[n, 2])"
    assert str(executable.target) == str(here.target)
    assert executable.info == here.info
    result = vmkit.VirtualMachine(executable).run(X).numpy()
    np.testing.assert_array_equal(result, vmkit.VirtualMachine(here).run(X).numpy())
    np.testing.assert_array_equal(result, [[11, 20], [13, 20]])


def test_modules_with_parameters_targets_and_shapes() -> None:
    params = {"w": np.array([10, 20], "float32")}
    mod = tvm.IRModule({"main": relay_function()})
    for target in (tvm.target.Target({"kind": "llvm", "num-cores": 1}), ["llvm -num-cores=1"]):
        executable = vmkit.compile(mod, target, params=params, isolated=True)
        assert executable.number_of_cores == 1
        np.testing.assert_array_equal(vmkit.VirtualMachine(executable).run(X).numpy(), [[11, 20], [13, 20]])
    shaped = vmkit.compile(onnx_model(), "llvm", shapes={"x": [3, 2]}, isolated=True)
    assert str(shaped.signature.inputs[0]) == "float32[3, 2]"


def test_options_and_records_go_along() -> None:
    kernels = []
    for fused in (True, False):
        with vmkit.PassContext(disabled_pass=None if fused else ["FuseOps", "GroupKernels"]):
            here, there = (vmkit.compile(relay_function(), "llvm", isolated=each) for each in (False, True))
        assert here.primitive_ops == there.primitive_ops
        kernels.append(there.primitive_ops)
    assert kernels[0] != kernels[1]
    workload = Workload("dense", "float32", (), ("i0",), (), 1)
    record = Record(workload, {"rows": 4}, "x86-64-v3", "haswell", 2e-6, 1e-6, "0.1.0", "0.27.0", "2026-01-31")
    with choosing.entered(Records([record])):
        request = isolated.Request.of(relay_function(), None, None, {}, None, False)
    with pickle.loads(pickle.dumps(request)).in_force():
        assert list(choosing.in_force()) == [record]
    with vmkit.PassContext(instruments=[PassTimingInstrument()]), pytest.raises(OptionError, match="instruments of"):
        vmkit.compile(relay_function(), "llvm", isolated=True)


def test_errors_are_those_of_compiling_here(tmp_path: Path) -> None:
    x = relay.var("x", shape=(2,))
    ill_typed = relay.Function([x], relay.nn.dense(x, x))
    cases: list[tuple[Any, Any]] = [
        (tmp_path / "none.onnx", None),
        (b"no model", None),
        (ill_typed, "llvm"),
        (relay_function(), "llvm -mcpu=skylake-avx51"),
        (relay_function(), 5),
    ]
    for model, target in cases:
        texts = []
        for apart in (False, True):
            with pytest.raises(VMKitError) as caught:
                vmkit.compile(model, target, isolated=apart)
            texts.append((type(caught.value), str(caught.value)))
        assert texts[0] == texts[1]
    with pytest.raises(
        ModelError, match=r"with isolated=True a model is a path, the bytes of an ONNX file, .* not list;"
    ):
        vmkit.compile([], isolated=True)
    foreign = "riscv64-linux-gnu" if "x86" in str(vmkit.compile(relay_function()).target) else "x86_64-linux-gnu"
    with pytest.raises(TargetError, match="this one is for another machine"):
        vmkit.compile(relay_function(), f"llvm -mtriple={foreign}", isolated=True)


def test_limits_and_deaths(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="timeout and max_memory are for another process: pass isolated=True, too"):
        vmkit.compile(relay_function(), timeout=1.0)
    monkeypatch.setattr(isolated, "_JOB", f"{jobs.__name__}:say_and_die")
    with pytest.raises(CompileError, match="ended by SIGKILL while the model was compiled; it said last:"):
        vmkit.compile(relay_function(), isolated=True)
    monkeypatch.setattr(isolated, "_JOB", f"{jobs.__name__}:hang")
    with pytest.raises(CompileTimeoutError, match=r"^small\.onnx was compiled for longer than timeout=0\.5 seconds"):
        vmkit.compile("small.onnx", isolated=True, timeout=0.5)
