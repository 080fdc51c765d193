"""What a session refuses and with which error, what its options do, and where it differs from onnxruntime's."""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

import vmkit
from tests.onnxruntime.models import info, model, plus_weights
from vmkit import onnxruntime as ort
from vmkit.errors import InputError, VMKitError
from vmkit.onnxruntime import errors, providers

X = np.float32([[0, 1, 2], [3, 4, 5]])


@pytest.fixture(scope="module")
def session() -> ort.InferenceSession:
    return ort.InferenceSession(plus_weights())


FEEDS: list[tuple[Any, type, str]] = [
    ({}, errors.InvalidArgument, r"x: missing, expected tensor\(float\) of shape \['n', 3\]"),
    ({"x": X, "xx": X}, errors.InvalidArgument, "xx: no such input; did you mean 'x'"),
    ({"x": X.astype("float64")}, errors.InvalidArgument, "x: dtype float64, expected float32"),
    ({"x": X[0]}, errors.InvalidArgument, "x: rank 1"),
    ({"x": X[:, :2]}, errors.InvalidArgument, "x: dim 1 is 2, expected 3"),
    ({"x": "abc"}, errors.InvalidArgument, "x: a str, expected"),
    ({"x": X, "w": X}, errors.InvalidArgument, "w: rank 2"),
    ([X], errors.ArgumentTypeError, "input_feed is a list, expected a dict"),
    (None, errors.ArgumentTypeError, "input_feed is a NoneType"),
]


@pytest.mark.parametrize(("feed", "kind", "text"), FEEDS)
def test_feeds_that_do_not_fit(session: ort.InferenceSession, feed: Any, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        session.run(None, feed)
    with pytest.raises(Exception):  # noqa: B017 - of whatever kind: onnxruntime refuses it, too
        onnxruntime.InferenceSession(plus_weights()).run(None, feed)


def test_all_that_is_wrong_in_a_feed_is_one_error(session: ort.InferenceSession) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        session.run(None, {"y": X, "z": X})
    assert re.findall(r"^  (\w+):", str(caught.value), re.M) == ["y", "z", "x"]
    assert isinstance(caught.value, VMKitError | InputError | ValueError)


@pytest.mark.parametrize(("names", "kind"), [(["q"], errors.InvalidArgument), ("y", errors.ArgumentTypeError)])
def test_outputs_that_there_are_not(session: ort.InferenceSession, names: Any, kind: type) -> None:
    with pytest.raises(kind, match="output"):
        session.run(names, {"x": X})


def broken(nodes: list[Any], opset: int = 18) -> bytes:
    return model(nodes, [info("x", [3])], [info("y", [3])], opset=opset)


MODELS: list[tuple[Any, str, str]] = [
    ("/no/such/file.onnx", "NoSuchFile", "there is no such file"),
    (b"garbage", "InvalidProtobuf", "is no ONNX model"),
    (b"", "InvalidProtobuf", "is empty"),
    (5, "ArgumentTypeError", "a model is a path or the bytes of a file, not a int"),
    (broken([helper.make_node("Foo", ["x"], ["y"])]), "NotImplemented", "Foo"),
    (broken([helper.make_node("Foo", ["x"], ["y"], domain="mine")]), "InvalidGraph", "no opset of its domain 'mine'"),
    (broken([helper.make_node("Relu", ["q"], ["y"])]), "InvalidGraph", "names are used that nothing defines: 'q'"),
]


@pytest.mark.parametrize(("source", "kind", "text"), MODELS)
def test_models_that_cannot_be_loaded(source: Any, kind: str, text: str) -> None:
    with pytest.raises(getattr(errors, kind), match=text) as caught:
        ort.InferenceSession(source)
    assert isinstance(caught.value, VMKitError)
    with pytest.raises(Exception):  # noqa: B017 - of whatever kind: onnxruntime refuses it, too
        onnxruntime.InferenceSession(source)


def test_a_file_of_onnxruntime_s_format_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "model.ort").write_bytes(b"ORTM")
    with pytest.raises(errors.InvalidProtobuf, match=r"give the ONNX file it came from"):
        ort.InferenceSession(tmp_path / "model.ort")


def test_a_run_that_fails_is_the_same_kind_of_error() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    made = model(nodes, [info("x", ["n"]), info("s", ["r"], TensorProto.INT64)], [info("y", None)])
    feed = {"x": X[0], "s": np.array([2, 2])}
    with pytest.raises(errors.Fail, match="the new shape holds 4 elements, the input 3"):
        ort.InferenceSession(made).run(None, feed)
    with pytest.raises(state.Fail):
        onnxruntime.InferenceSession(made).run(None, feed)


def test_equal_names_are_equal_sizes_which_onnxruntime_does_not_check() -> None:
    made = model(
        [helper.make_node("Concat", ["x", "z"], ["y"], axis=0)], [info("x", ["n"]), info("z", ["n"])], [info("y", None)]
    )
    feed = {"x": X[0], "z": X[0, :2]}
    with pytest.raises(errors.InvalidArgument, match="z: n = 2, but x"):
        ort.InferenceSession(made).run(None, feed)
    assert onnxruntime.InferenceSession(made).run(None, feed)[0].shape == (5,)


def test_a_run_that_is_to_end_is_not_begun(session: ort.InferenceSession) -> None:
    options = ort.RunOptions()
    options.terminate = True
    with pytest.raises(errors.Fail, match="terminate"):
        session.run(None, {"x": X}, options)
    options.terminate = False
    assert len(session.run(None, {"x": X}, options)) == 2


def test_a_provider_that_is_not_here_is_left_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="'TensorrtExecutionProvider' is not in available provider names"):
        made = ort.InferenceSession(plus_weights(), providers=["TensorrtExecutionProvider", "CPUExecutionProvider"])
    assert made.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.filterwarnings("ignore:Specified provider")
@pytest.mark.parametrize(
    ("named", "options", "kind", "text"),
    [
        (["TensorrtExecutionProvider"], None, errors.EPFail, "nothing else is taken in their place"),
        (["CpuExecutionProvider"], None, errors.InvalidArgument, "did you mean .*'CPUExecutionProvider'"),
        ("CPUExecutionProvider", None, errors.ArgumentTypeError, "expected a list of names"),
        (["CPUExecutionProvider"], [{}, {}], errors.InvalidArgument, "1 providers, but options for 2"),
        ([("CPUExecutionProvider", 3)], None, errors.InvalidArgument, "expected a name, or a name and a dict"),
    ],
)
def test_providers_that_cannot_be(named: Any, options: Any, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        providers.choose_provider(named, options)


def test_providers_have_the_devices_and_options_that_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ort.get_available_providers()[-1] == "CPUExecutionProvider"
    assert ort.get_all_providers() == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(providers, "get_available_providers", ort.get_all_providers)
    chosen = providers.choose_provider([("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"], None)
    assert (chosen.target, chosen.device, ort.get_device()) == ("cuda", "cuda:1", "GPU")


def test_set_providers_compiles_again(session: ort.InferenceSession) -> None:
    session.set_providers(["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], X + np.float32([1, 2, 3]))


def options_of(values: Mapping[str, Any]) -> ort.SessionOptions:
    options = ort.SessionOptions()
    for name, value in values.items():
        setattr(options, name, value)
    return options


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("intra_op_num_threads", "a", errors.ArgumentTypeError),
        ("graph_optimization_level", 1, errors.ArgumentTypeError),
        ("execution_mode", 1, errors.ArgumentTypeError),
        ("intra_op_num_thread", 1, AttributeError),
    ],
)
def test_options_that_cannot_be(name: str, value: Any, kind: type) -> None:
    with pytest.raises(kind, match=name):
        options_of({name: value})
    if kind is not AttributeError:
        with pytest.raises(TypeError):
            setattr(onnxruntime.SessionOptions(), name, value)


def test_options_have_their_effect() -> None:
    options = options_of(
        {
            "intra_op_num_threads": 1,
            "graph_optimization_level": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
            "enable_cpu_mem_arena": False,
        }
    )
    softened = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    made = model(softened, [info("x", ["n"])], [info("y", ["n"])])
    plain, fused = ort.InferenceSession(made, options), ort.InferenceSession(made)
    machine, built = plain._machine(frozenset())
    assert machine.num_threads == 1
    assert len(built.executable.primitive_ops) > len(fused._machine(frozenset())[1].executable.primitive_ops)
    np.testing.assert_array_equal(plain.run(None, {"x": X[0]}), fused.run(None, {"x": X[0]}))


def test_threads_of_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of({"use_per_session_threads": False, "intra_op_num_threads": 5})
    ort.set_global_thread_pool_sizes(3, 1)
    try:
        assert options.num_threads == 3
    finally:
        ort.set_global_thread_pool_sizes(0, 0)
    assert options.num_threads is None
    with pytest.raises(errors.InvalidArgument, match="intra_op_num_threads is -3"):
        _ = options_of({"intra_op_num_threads": -3}).num_threads


def test_options_without_an_effect_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    options = options_of({"inter_op_num_threads": 3, "execution_mode": ort.ExecutionMode.ORT_PARALLEL})
    options.add_session_config_entry("session.made_up_by_this_test", "1")
    assert options.get_session_config_entry("session.made_up_by_this_test") == "1"
    with caplog.at_level(logging.WARNING):
        options.told()
        told = [record.getMessage() for record in caplog.records]
        options.told()
    assert len(caplog.records) == len(told)
    assert any("session.made_up_by_this_test" in text for text in told)
    quiet = options_of({"log_severity_level": 4})
    quiet.add_session_config_entry("session.made_up_and_quiet", "1")
    quiet.told()
    assert len(caplog.records) == len(told)


def test_entries_of_a_configuration_are_kept() -> None:
    with pytest.raises(errors.Fail, match="no configuration entry 'a'"):
        ort.RunOptions().get_run_config_entry("a")
    with pytest.raises(errors.ArgumentTypeError):
        ort.RunOptions().add_run_config_entry("a", 1)  # type: ignore[arg-type]


def test_what_is_compiled_is_written_and_taken_in_place_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "model.vmx"
    fresh = ort.InferenceSession(plus_weights(), options_of({"optimized_model_filepath": str(path)}))
    assert zipfile.is_zipfile(path)
    for source in (path, str(path), path.read_bytes()):
        loaded = ort.InferenceSession(source)
        assert loaded.get_inputs() == fresh.get_inputs()
        assert loaded.get_modelmeta() == fresh.get_modelmeta()
        assert loaded.get_outputs() == [ort.NodeArg("y", "tensor(float)", ["n", 3]), fresh.get_outputs()[1]]
        np.testing.assert_array_equal(loaded.run(["y"], {"x": X}), fresh.run(["y"], {"x": X}))
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    with pytest.raises(errors.InvalidArgument, match="compiled already, so free dimension overrides cannot"):
        ort.InferenceSession(path, options)
    with pytest.raises(errors.InvalidArgument, match="give a path that ends in"):
        ort.InferenceSession(plus_weights(), options_of({"optimized_model_filepath": str(tmp_path / "m.onnx")}))


def test_other_models_that_vmkit_compiles(tmp_path: Path) -> None:
    path = tmp_path / "model.relay"
    path.write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 2), float32]) { tanh(%x) }')
    made = vmkit.InferenceSession(path)
    assert made.get_inputs() == [ort.NodeArg("x", "tensor(float)", [None, 2])]
    name = made.get_outputs()[0].name
    np.testing.assert_allclose(made.run([name], {"x": X[:, :2]})[0], np.tanh(X[:, :2]), rtol=1e-6)


@pytest.mark.parametrize(
    ("value", "text"), [(np.zeros(2, "float32"), "shape"), (np.zeros(3, "float64"), "element type 1")]
)
def test_initializers_keep_their_type_and_shape(value: np.ndarray, text: str) -> None:
    options = ort.SessionOptions()
    options.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(value))
    with pytest.raises(errors.InvalidArgument, match=text):
        ort.InferenceSession(plus_weights(), options)


def test_an_initializer_that_there_is_not() -> None:
    options = ort.SessionOptions()
    options.add_external_initializers(["ww"], [ort.OrtValue.ortvalue_from_numpy(np.zeros(3, "float32"))])
    with pytest.raises(errors.InvalidArgument, match="no initializer 'ww'; did you mean 'w'"):
        ort.InferenceSession(plus_weights(), options)


def test_bindings_that_cannot_be(session: ort.InferenceSession) -> None:
    binding = session.io_binding()
    with pytest.raises(errors.InvalidArgument, match="no input 'q'"):
        binding.bind_cpu_input("q", X)
    with pytest.raises(errors.InvalidArgument, match="no output 'q'"):
        binding.bind_output("q")
    binding.bind_cpu_input("x", X)
    with pytest.raises(errors.InvalidArgument, match="no output is bound"):
        session.run_with_iobinding(binding)
    small = np.zeros((1, 3), "float32")
    binding.bind_output("y", "cpu", 0, np.float32, small.shape, small.ctypes.data)
    with pytest.raises(errors.InvalidArgument, match=r"output 0 has shape \(2, 3\), the tensor given \(1, 3\)"):
        session.run_with_iobinding(binding)
    binding.clear_binding_inputs()
    with pytest.raises(errors.InvalidArgument, match="x: missing"):
        session.run_with_iobinding(binding)


def test_values_that_cannot_be() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="not of strings"):
        ort.OrtValue.ortvalue_from_numpy(np.array(["a"]))
    with pytest.raises(errors.ArgumentTypeError, match="is no element type"):
        ort.OrtValue.ortvalue_from_shape_and_type([1], "float31")
    value = ort.OrtValue.ortvalue_from_numpy(X)
    with pytest.raises(errors.InvalidArgument, match="float64"):
        value.update_inplace(X.astype("float64"))
    with pytest.raises(errors.ArgumentTypeError, match="expected an array of numpy or an OrtValue"):
        value.update_inplace([1])  # type: ignore[arg-type]


def test_values_are_copied_to_values() -> None:
    source, target = ort.OrtValue.ortvalue_from_numpy(X), ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    ort.copy_tensors([source], [target])
    np.testing.assert_array_equal(target.numpy(), X)


@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test_devices_have_onnxruntime_s_numbers(name: str) -> None:
    own, theirs = (each.OrtDevice.make(name, 1) for each in (ort, onnxruntime))
    for method in ("device_id", "device_type", "device_vendor_id", "device_mem_type"):
        assert getattr(own, method)() == getattr(theirs, method)()


def test_a_folder_of_one_model_is_that_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(plus_weights())
    assert vmkit.InferenceSession(tmp_path).get_inputs()[0].name == "x"


def test_what_is_disabled_is_a_pass_of_the_compiler() -> None:
    with pytest.raises(errors.InvalidArgument, match="FuseOpps"):
        ort.InferenceSession(plus_weights(), disabled_optimizers=["FuseOpps"])
    made = ort.InferenceSession(plus_weights(), disabled_optimizers=["FuseOps"])
    np.testing.assert_array_equal(made.run(["y"], {"x": X})[0], X + np.float32([1, 2, 3]))


def test_large_results_share_no_memory() -> None:
    weights = np.zeros(1 << 17, "float32")
    nodes = [
        helper.make_node("Identity", ["w"], ["a"]),
        helper.make_node("Identity", ["x"], ["b"]),
        helper.make_node("Neg", ["x"], ["c"]),
    ]
    outputs = [info(name, None) for name in "abc"]
    made = ort.InferenceSession(model(nodes, [info("x", ["n"])], outputs, [numpy_helper.from_array(weights, "w")]))
    x = np.ones(1 << 17, "float32")
    for _ in range(2):
        for result, wanted in zip(made.run(None, {"x": x}), (0, 1, -1), strict=True):
            assert (result == wanted).all()
            result[:] = 5
    assert (x == 1).all()


def test_bound_outputs_are_written_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    session = ort.InferenceSession(plus_weights())
    value = ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_ortvalue_output("y", value)
    session.run_with_iobinding(binding)

    def copyto(*_: Any) -> None:
        raise AssertionError("a result was copied")

    monkeypatch.setattr(type(value.value), "copyto", copyto)
    for x in (X, X + 1):
        binding.bind_cpu_input("x", x)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(value.numpy(), x + np.float32([1, 2, 3]))


class TestCache:
    """A session compiles a model once, and the next one loads it."""

    @pytest.fixture
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        caplog.set_level(logging.INFO, "vmkit")
        return tmp_path / "vmkit"

    def looked_up(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        found = [text.split(":")[0] for text in caplog.messages if text.startswith(("cache hit", "cache miss"))]
        caplog.clear()
        return found

    def scores(self, model: Any, options: ort.SessionOptions | None = None) -> list[float]:
        session = ort.InferenceSession(model, options)
        return [float(each) for each in session.run(["y"], {"x": X})[0][0]]

    def test_the_second_session_loads(self, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        first = ort.InferenceSession(plus_weights())
        assert self.looked_up(caplog) == ["cache miss"]
        file = tmp_path / "model.onnx"
        file.write_bytes(plus_weights())
        for source, with_weights in ((plus_weights(), "cache miss"), (file, "cache hit")):
            again = ort.InferenceSession(source)
            assert self.looked_up(caplog) == ["cache hit"]
            assert (again.get_inputs(), again.get_outputs()) == (first.get_inputs(), first.get_outputs())
            assert again.get_modelmeta() == first.get_modelmeta()
            assert again.get_overridable_initializers() == first.get_overridable_initializers()
            np.testing.assert_array_equal(again.run(None, {"x": X})[0], X + np.float32([1, 2, 3]))
            # What is fed in place of an initializer is another program.
            np.testing.assert_array_equal(again.run(None, {"x": X, "w": X[1]})[0], X + X[1])
            assert self.looked_up(caplog) == [with_weights]
        assert len(list(home.glob("*.vmx"))) == 2

    def test_what_the_options_change_is_another_entry(self, home: Path, caplog: pytest.LogCaptureFixture) -> None:
        assert self.scores(plus_weights()) == [1, 3, 5]
        fixed, other, plain = ort.SessionOptions(), ort.SessionOptions(), ort.SessionOptions()
        fixed.add_free_dimension_override_by_name("n", 2)
        other.add_initializer("w", ort.OrtValue.ortvalue_from_numpy(np.float32([5, 5, 5])))
        plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        made = [self.scores(plus_weights(), options) for options in (fixed, other, plain)]
        assert made == [[1, 3, 5], [5, 6, 7], [1, 3, 5]]
        assert self.looked_up(caplog) == ["cache miss"] * 4

    def test_weights_in_files_count(self, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        file = tmp_path / "model.onnx"
        model = onnx.load_from_string(plus_weights())
        onnx.save(model, file, save_as_external_data=True, location="w.bin", size_threshold=0)
        assert self.scores(file) == [1, 3, 5]
        (tmp_path / "w.bin").write_bytes(np.float32([7, 7, 7]).tobytes())
        assert self.scores(file) == [7, 8, 9]
        assert self.scores(file) == [7, 8, 9]
        assert self.looked_up(caplog) == ["cache miss", "cache miss", "cache hit"]

    def test_large_weights_in_the_model_count(self, home: Path, tmp_path: Path) -> None:
        file = tmp_path / "model.onnx"
        for factor in (1, 2, 1):
            weight = numpy_helper.from_array(np.full(5000, factor, "float32"), "w")
            node = helper.make_node("Mul", ["x", "w"], ["y"])
            file.write_bytes(model([node], [info("x", [5000])], [info("y", [5000])], [weight]))
            made = ort.InferenceSession(file).run(None, {"x": np.ones(5000, "float32")})[0]
            np.testing.assert_array_equal(made, np.full(5000, factor, "float32"))

    def test_a_folder_of_ones_own_and_none(self, home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        own, off = ort.SessionOptions(), ort.SessionOptions()
        own.add_session_config_entry("vmkit.cache", str(tmp_path / "own"))
        off.add_session_config_entry("vmkit.cache", "0")
        assert self.scores(plus_weights(), own) == [1, 3, 5]
        assert self.looked_up(caplog) == ["cache miss"]
        assert len(list((tmp_path / "own").glob("*.vmx"))) == 1
        assert self.scores(plus_weights(), off) == [1, 3, 5]
        assert self.looked_up(caplog) == []
        assert not home.exists()
        with pytest.raises(errors.InvalidArgument, match=r"'vmkit.cach'; did you mean 'vmkit.cache'"):
            own.add_session_config_entry("vmkit.cach", "1")

    def test_a_cache_that_cannot_be_used(self, home: Path, caplog: pytest.LogCaptureFixture) -> None:
        home.parent.mkdir(exist_ok=True)
        home.write_text("not a folder")
        assert self.scores(plus_weights()) == [1, 3, 5]
        assert [text for text in caplog.messages if text.startswith("sessions compile their models each time: ")]
        asked = ort.SessionOptions()
        asked.add_session_config_entry("vmkit.cache", str(home))
        with pytest.raises(errors.InvalidArgument, match="cannot be used"):
            ort.InferenceSession(plus_weights(), asked)
