"""Scripts for onnxruntime do the same with one import changed: each is run both ways, and what it made is compared."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import vmkit.onnxruntime
from tests.onnxruntime.models import info, model, plus_weights

X = np.float32([[0, 1, 2], [3, 4, 5]])

Script = Callable[[Any, Path], Any]


def describe(ort: Any, folder: Path) -> Any:
    path = folder / "model.onnx"
    path.write_bytes(plus_weights())
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    args = (*session.get_inputs(), *session.get_outputs(), *session.get_overridable_initializers())
    meta = session.get_modelmeta()
    told = (meta.custom_metadata_map, meta.description, meta.domain, meta.graph_description, meta.graph_name)
    more = (meta.producer_name, meta.version, session.get_providers(), session.get_provider_options())
    return [[a.name, a.shape, a.type] for a in args], [str(a) for a in args], told, more


def choose_outputs(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    feed = {session.get_inputs()[0].name: X}
    return [session.run(names, feed) for names in (None, [], ["s"], ("s", "y", "s"))]


def override_an_initializer(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    return [session.run(["y"], feed) for feed in ({"x": X, "w": np.float32([7, 8, 9])}, {"x": X})]


def feed_other_forms(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    value = ort.OrtValue.ortvalue_from_numpy(X)
    return [session.run(["y"], {"x": x}) for x in (X.tolist(), X[:, ::-1], X[:0], np.asfortranarray(X), value)]


def fix_dimensions(ort: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(plus_weights(), options)
    shapes = [arg.shape for arg in (*session.get_inputs(), *session.get_outputs())]
    return shapes, session.run(None, {"x": X})


def fix_denoted_dimensions(ort: Any, folder: Path) -> Any:
    x = info("x", ["n", 2])
    x.type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 4)
    session = ort.InferenceSession(model([helper.make_node("Neg", ["x"], ["y"])], [x], [info("y", ["n", 2])]), options)
    return [arg.shape for arg in session.get_inputs()], session.run(None, {"x": np.ones((4, 2), "float32")})


def replace_an_initializer(ort: Any, folder: Path) -> Any:
    options = ort.SessionOptions()
    value = ort.OrtValue.ortvalue_from_numpy(np.float32([4, 5, 6]))
    options.add_initializer("w", value)
    return ort.InferenceSession(plus_weights(), options).run(["y"], {"x": X})


def bind_arrays(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("s")
    binding.bind_output("y", "cpu")
    binding.synchronize_inputs()
    session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    values = [value.numpy() for value in binding.get_outputs()]
    arrays = binding.copy_outputs_to_cpu()
    binding.clear_binding_outputs()
    return values, arrays, binding.get_outputs()


def bind_memory(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    binding, y = session.io_binding(), np.zeros((2, 3), "float32")
    binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(X + 1))
    binding.bind_ortvalue_output("y", value)
    session.run_with_iobinding(binding)
    return y, value.numpy(), len(binding.get_outputs())


def describe_values(ort: Any, folder: Path) -> Any:
    x = X.copy()
    value = ort.OrtValue.ortvalue_from_numpy(x)
    empty = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], TensorProto.FLOAT16, "cpu", 0)
    half = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.zeros(3, "uint16"), TensorProto.BFLOAT16)
    value.update_inplace(x + 10)
    shared = ort.OrtValue.from_dlpack(x)
    values = (value, empty, half, shared)
    types = [(v.shape(), v.data_type(), v.element_type(), v.tensor_size_in_bytes()) for v in values]
    kinds = [(v.is_tensor(), v.has_value(), v.is_tensor_sequence(), v.is_sparse_tensor()) for v in values]
    places = [(v.device_name(), tuple(v.__dlpack_device__())) for v in values]
    told = types, kinds, places
    return told, x, value.numpy(), [v.data_ptr() == x.ctypes.data for v in (value, shared)], np.from_dlpack(value)


def run_with_values(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    y, s = session.run_with_ort_values(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    return y.numpy(), s.numpy(), np.asarray(y), y.data_type(), s.shape()


def run_in_another_thread(ort: Any, folder: Path) -> Any:
    session = ort.InferenceSession(plus_weights())
    made: list[Any] = []
    done = threading.Event()

    def callback(results: Any, user_data: Any, problem: str) -> None:
        made.append((results, user_data, problem == ""))
        done.set()

    for feed in ({"x": X}, {"x": X.astype("float64")}):
        done.clear()
        session.run_async(["y"], feed, callback, "mine")
        assert done.wait(60)
    return made


def sequences(ort: Any, folder: Path) -> Any:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n", 2]))
    nodes = [
        helper.make_node("SequenceInsert", ["xs", "x"], ["ys"]),
        helper.make_node("SequenceLength", ["ys"], ["count"]),
    ]
    inputs = [helper.make_value_info("xs", kind), info("x", ["n", 2])]
    outputs = [helper.make_value_info("ys", kind), info("count", [], TensorProto.INT64)]
    session = ort.InferenceSession(model(nodes, inputs, outputs))
    args = [[a.name, a.type, a.shape] for a in (*session.get_inputs(), *session.get_outputs())]
    x = np.ones((1, 2), "float32")
    return args, session.run(None, {"xs": [x, x[:0]], "x": x + 1})


def maps(ort: Any, folder: Path) -> Any:
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["cat", "dog"])
    one = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    outputs = [helper.make_value_info("y", helper.make_sequence_type_proto(one))]
    session = ort.InferenceSession(model([node], [info("x", ["n", 2])], outputs))
    return [[a.type, a.shape] for a in session.get_outputs()], session.run(None, {"x": X[:, :2]})


def strings(ort: Any, folder: Path) -> Any:
    names = [info(name, ["n"], TensorProto.STRING) for name in "xy"]
    session = ort.InferenceSession(model([helper.make_node("Identity", ["x"], ["y"])], names[:1], names[1:]))
    feeds = [np.array(["a", "é", ""]), np.array(["b"], object), ["c"]]
    return [a.type for a in session.get_inputs()], [session.run(None, {"x": x}) for x in feeds]


def optional_values(ort: Any, folder: Path) -> Any:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    made = model([node], [helper.make_value_info("x", kind)], [info("y", [], TensorProto.BOOL)])
    session = ort.InferenceSession(made)
    args = [[a.type, a.shape] for a in (*session.get_inputs(), *session.get_outputs())]
    return args, [session.run(None, feed) for feed in ({"x": np.ones(2, "float32")}, {"x": None}, {})]


def unknown_dimensions(ort: Any, folder: Path) -> Any:
    x = info("x", ["n", -1, None, "", 4])
    nodes = [helper.make_node("Concat", ["x", "x"], ["y"], axis=0), helper.make_node("Identity", ["x"], ["z"])]
    session = ort.InferenceSession(model(nodes, [x], [info("y", None), info("z", None)]))
    return [[a.name, a.type, a.shape] for a in (*session.get_inputs(), *session.get_outputs())]


def results_are_the_caller_s(ort: Any, folder: Path) -> Any:
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in ("y", "z")]
    session = ort.InferenceSession(model(nodes, [info("x", ["n"])], [info("y", ["n"]), info("z", ["n"])]))
    x = np.zeros(1 << 18, "float32")
    y, z = session.run(None, {"x": x})
    y += 1
    return x.sum(), y.sum(), z.sum()


SCRIPTS: list[Script] = [
    describe,
    choose_outputs,
    override_an_initializer,
    feed_other_forms,
    fix_dimensions,
    fix_denoted_dimensions,
    replace_an_initializer,
    bind_arrays,
    bind_memory,
    describe_values,
    run_with_values,
    run_in_another_thread,
    sequences,
    maps,
    strings,
    optional_values,
    unknown_dimensions,
    results_are_the_caller_s,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_a_script_makes_the_same(script: Script, tmp_path: Path) -> None:
    compare(script(vmkit.onnxruntime, tmp_path), script(onnxruntime, tmp_path))


def compare(made: Any, wanted: Any) -> None:
    """Assert that two values are the same, with arrays of the same data type in the same places."""
    if isinstance(wanted, np.ndarray):
        assert isinstance(made, np.ndarray)
        assert made.dtype == wanted.dtype
        np.testing.assert_array_equal(made, wanted)
    elif isinstance(wanted, list | tuple):
        assert type(made) is type(wanted)
        assert len(made) == len(wanted)
        for one, other in zip(made, wanted, strict=True):
            compare(one, other)
    else:
        assert made == wanted


@pytest.mark.parametrize("ort", [vmkit.onnxruntime, onnxruntime], ids=["vmkit", "onnxruntime"])
def test_profiles_are_traces_of_the_runs(ort: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, "profile"
    session = ort.InferenceSession(plus_weights(), options)
    assert session.get_profiling_start_time_ns() > 0
    for _ in range(2):
        session.run(None, {"x": X})
    path = session.end_profiling()
    assert path.startswith("profile_")
    events = json.loads((tmp_path / path).read_text())
    assert sum(e["name"] == "model_run" for e in events if e["cat"] == "Session") == 2
    nodes = [e for e in events if e["cat"] == "Node"]
    assert len(nodes) >= 2
    assert all(e["dur"] >= 0 and e["ph"] == "X" and e["args"]["op_name"] for e in nodes)
    session.run(None, {"x": X})
    assert session.end_profiling() == ""
    assert ort.InferenceSession(plus_weights()).end_profiling() == ""
