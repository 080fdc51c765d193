"""ONNX's own backend suite: every case passes.

An eighth of the cases run always, with one of each operator and one whole network; the rest run nightly. What they
compute is the suite's.
"""

from __future__ import annotations

import unittest
import zlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.frontend.onnx.backend_cases import cases, run
from tests.frontend.onnx.programs import array, model, node
from vmkit import backend
from vmkit.errors import DeviceError, InputError, OptionError


def _sampled() -> set[str]:
    """Return an eighth of the cases, of functions written out a twenty-fourth, and one at least of each operator."""
    place = {name: zlib.crc32(name.encode()) for name, case in cases().items() if case.url is None}
    chosen = {name for name in place if place[name] % (24 if name.endswith("_expanded") else 8) == 0}
    reached = {operator for name in chosen for operator in _operators(name)}
    for name in sorted(place, key=place.__getitem__):
        if not name.endswith("_expanded") and not _operators(name) <= reached:
            chosen.add(name)
            reached |= _operators(name)
    return chosen | {"test_zfnet512"}


def _operators(name: str) -> set[str]:
    model = cases()[name].model
    return {n.op_type for n in model.graph.node} if model is not None else set()


SAMPLED = _sampled()


@pytest.mark.parametrize("name", [n for n in cases() if n in SAMPLED])
def test_a_part_of_the_suite(name: str) -> None:
    run(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [n for n in cases() if n not in SAMPLED])
def test_the_rest_of_the_suite(name: str) -> None:
    run(name)


X = {"x": (["n", 4], "float32")}


def test_a_prepared_model_takes_inputs_in_order_by_name_and_alone() -> None:
    prepared = backend.prepare(model([node("Neg", "x", "y"), node("Abs", "x", "z")], X, "y z"), "CPU")
    x = array(3, 4)
    for inputs in ([x], (x,), {"x": x}, x):
        y, z = prepared.run(inputs)
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(z, np.abs(x))
    assert prepared.output_names == ("y", "z")
    assert isinstance(prepared.executable, vmkit.Executable)


def test_results_are_the_callers_own() -> None:
    prepared = backend.prepare(model([node("Identity", "x", "y")], X, "y"))
    x = array(2, 4)
    (y,) = prepared.run([x])
    y[:] = 0
    assert not np.array_equal(x, y)


def test_one_node() -> None:
    (total,) = backend.run_node(node("Add", "a b", "c"), [np.float32([1]), np.float32([2])])
    assert total.tolist() == [3]
    (twice,) = backend.run_node(node("Add", "a a", "c"), {"a": np.float32([2])}, opset_version=13)
    assert twice.tolist() == [4]
    with pytest.raises(InputError, match="the node reads a, b, but 1 inputs were given"):
        backend.run_node(node("Add", "a b", "c"), [np.float32([1])])


def test_which_models_and_devices_there_are() -> None:
    unknown = helper.make_node("Alpha", ["x"], ["y"], domain="own")
    proto = model([unknown], X, "y")
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert not backend.is_compatible(proto)
    assert backend.is_compatible(model([node("Neg", "x", "y")], X, "y"))
    assert backend.supports_device("CPU")
    assert not backend.supports_device("NPU")
    assert not backend.is_compatible(model([node("Neg", "x", "y")], X, "y"), "NPU")
    with pytest.raises(DeviceError, match="unknown device 'npu'"):
        backend.prepare(model([node("Neg", "x", "y")], X, "y"), "NPU")


def test_options_of_the_compiler_and_the_machine() -> None:
    proto = model([node("Neg", "x", "y")], X, "y")
    prepared = backend.prepare(proto, shapes={"x": [2, 4]}, target="llvm", num_threads=1)
    assert str(prepared.executable.signature) == "main(x: float32[2, 4]) -> (y: float32[2, 4])"
    with pytest.raises(OptionError, match="unknown options nonsense; there are num_threads, shapes, target"):
        backend.prepare(proto, nonsense=1)
    with pytest.raises(OptionError, match="a run takes no options"):
        prepared.run([array(2, 4)], nonsense=1)


def test_the_suites_own_runner_takes_the_backend() -> None:
    from onnx.backend.test import BackendTest

    suite = BackendTest(backend, __name__)
    suite.include("test_add_cpu$")
    result = suite.test_suite.run(unittest.TestResult())
    assert result.wasSuccessful()
    assert result.testsRun > len(result.skipped)


def test_a_model_file(tmp_path: object) -> None:
    path = f"{tmp_path}/m.onnx"
    proto = model([node("Neg", "x", "y")], X, "y")
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(proto, path)
    (y,) = backend.run_model(path, [array(2, 4)])
    np.testing.assert_array_equal(y, -array(2, 4))
