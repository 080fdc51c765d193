"""mlonmcu's own backends with vmkit's tvmc: what they generate is compiled and gives the models' values."""

from __future__ import annotations

import ctypes
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.mlf.built import FLAGS
from tests.mlf.graphs import run
from tests.mlf.networks import quantized_cnn
from tests.places import TOP
from vmkit import relay
from vmkit.cli.tvmc.main import SCRIPT

# Its parts import each other: this one has to be the first.
pytest.importorskip("mlonmcu.target", reason="mlonmcu is not installed: pip install '.[mlonmcu]'")
from mlonmcu.flow import SUPPORTED_TVM_BACKENDS

pytestmark = pytest.mark.nightly

MNIST = TOP / "vmkit" / "data" / "mnist.onnx"
# The platform's own part of a build, which mlonmcu takes from elsewhere.
PLATFORM = {
    "printing.h": "#include <stdio.h>\n#define DBGPRINTF(...) printf(__VA_ARGS__)\n",
    "exit.h": "#include <stdlib.h>\n#define mlonmcu_exit(code) exit(code)\n",
}
RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 6), float32], %y: Tensor[(1, 6), float32]) -> Tensor[(1, 6), float32] {
  nn.softmax(multiply(%x, exp(%y)))
}
"""


class Model:
    """A model's file, what mlonmcu is told of it, and values."""

    def __init__(self, path: Path, inputs: dict[str, np.ndarray], expected: list[np.ndarray]) -> None:
        self.path, self.inputs, self.expected = path, inputs, expected

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shapes of inputs; mlonmcu takes weights for inputs, too, where a model lists them so."""
        return {name: list(value.shape) for name, value in self.inputs.items()}

    def check(self, outputs: list[np.ndarray]) -> None:
        """Compare the outputs of a run."""
        for got, value in zip(outputs, self.expected, strict=True):
            flat = got.view(value.dtype).reshape(value.shape)
            if value.dtype.kind == "f":
                np.testing.assert_allclose(flat, value, rtol=1e-4, atol=1e-5 * np.abs(value).max())
            else:
                np.testing.assert_array_equal(flat, value)


def of_onnx(path: Path, **inputs: np.ndarray) -> Model:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return Model(path, inputs, session.run(None, inputs))


@pytest.fixture(scope="module", params=["mnist", "int8", "relay", "tflite"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("model")
    if request.param == "mnist":
        return of_onnx(MNIST, Input3=rng.random((1, 1, 28, 28), "float32"))
    if request.param == "int8":
        onnx.save(onnx.shape_inference.infer_shapes(quantized_cnn()), folder / "cnn.onnx")
        return of_onnx(folder / "cnn.onnx", x=rng.integers(0, 256, (1, 2, 9, 7), "uint8"))
    if request.param == "tflite":
        pytest.importorskip("tflite", reason="tflite is not installed: pip install '.[tflite]'")
        from tests.frontend.test_tflite import SHAPE, sum_with_a_constant

        constant, x = rng.random((2, *SHAPE), "float32")
        (folder / "sum.tflite").write_bytes(sum_with_a_constant(constant))
        return Model(folder / "sum.tflite", {"x": x}, [x + constant])
    (folder / "softmax.relay").write_text(RELAY)
    x, y = rng.random((2, 1, 6), "float32")
    powers = np.exp(x * np.exp(y))
    return Model(folder / "softmax.relay", {"x": x, "y": y}, [powers / powers.sum()])


def backend_of(name: str, model: Model, **config: Any) -> Any:
    keys = {"tvmc_custom_script": str(SCRIPT), "num_threads": 1, "utvmcg.exe": "utvmcg", **config}
    prefixed = {key if "." in key else f"{name}.{key}": value for key, value in keys.items()}
    backend = SUPPORTED_TVM_BACKENDS[name](config=prefixed)
    backend.load_model(model.path, input_shapes=model.shapes)
    return backend


def generated(backend: Any) -> dict[str, Any]:
    """Return the artifacts of a backend by name: texts, or bytes."""
    artifacts, metrics = backend.generate()
    assert set(artifacts) == set(metrics) == {"default"}
    return {each.name: each.raw if each.raw is not None else each.content for each in artifacts["default"]}


def linked(made: dict[str, Any], folder: Path, flags: tuple[str, ...], without: str = "") -> ctypes.CDLL:
    """Return the library of an archive's code, and of the wrapper where there is one for this runtime."""
    with tarfile.open(fileobj=io.BytesIO(made["default.tar"])) as archive:
        archive.extractall(folder, filter="data")
    wrapper = {name: text for name, text in made.items() if name.endswith(("_wrapper.c", "_wrapper.h"))}
    for place, text in (PLATFORM | wrapper).items():
        (folder / place).write_text(text)
    sources = [each for each in folder.rglob("*.[co]") if each.name not in ("tvm_wrapper.c", without)]
    includes = [f"-I{folder / place}" for place in ("", "codegen/host/include", "runtime/include")]
    command = ["gcc", *flags, "-O1", "-shared", "-fPIC", "-o", folder / "model.so", *sources, *includes, "-lm"]
    done = subprocess.run(list(map(str, [*command, "-Wl,--no-undefined"])), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "model.so"))


def wrapped(library: ctypes.CDLL, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs, as bytes, by the functions of mlonmcu's wrapper."""
    library.TVMWrap_GetInputPtr.restype = library.TVMWrap_GetOutputPtr.restype = ctypes.c_void_p
    assert (library.TVMWrap_Init(), library.TVMWrap_GetNumInputs()) == (0, len(inputs))
    for place, value in enumerate(inputs):
        assert library.TVMWrap_GetInputSize(place) == value.nbytes
        ctypes.memmove(library.TVMWrap_GetInputPtr(place), value.ctypes.data, value.nbytes)
    assert library.TVMWrap_Run() == 0
    places = range(library.TVMWrap_GetNumOutputs())
    sizes = [library.TVMWrap_GetOutputSize(place) for place in places]
    found = [ctypes.string_at(library.TVMWrap_GetOutputPtr(k), sizes[k]) for k in places]
    return [np.frombuffer(data, "uint8") for data in found]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("tvmaot", {}),
        ("tvmaot", {"arena_size": 0, "debug_arena": True, "refresh_model_info": True, "dump": "relay,tir,c"}),
        ("tvmaot", {"unpacked_api": True, "debug_arena": True}),
        ("tvmaotplus", {}),
    ],
    ids=["packed", "packed without an arena", "structs", "plus"],
)
def test_wrappers_of_entries_run_the_model(name: str, config: dict[str, Any], model: Model, tmp_path: Path) -> None:
    if "dump" in config and model.path.suffix == ".tflite":  # which is read as Relax, and never is Relay
        config = config | {"refresh_model_info": False, "dump": "tir,c"}
    made = generated(backend_of(name, model, **config))
    assert {f"default.{each}" for each in config.get("dump", "tar").split(",")} <= set(made)
    assert {"default.tar", "default.json", "aot_wrapper.c", "tvm_wrapper.h", "tvmc_compile_out.log"} <= set(made)
    assert json.loads(made["default.json"])["modules"]["default"]["executors"] == ["aot"]
    model.check(wrapped(linked(made, tmp_path, ("-std=c99", "-Wall", "-Werror")), list(model.inputs.values())))


@pytest.mark.parametrize("name", ["tvmrt", "tvmllvm", "tvmcg"])
def test_graphs_and_their_parameters_are_the_model(name: str, model: Model, tmp_path: Path) -> None:
    backend = backend_of(name, model, dump="ll" if name == "tvmllvm" else "c")
    if name == "tvmcg":
        # What is more in it is a program that is not a part of mlonmcu.
        backend.generate = super(type(backend), backend).generate
    made = generated(backend)
    assert {"default.graph", "default.params", "rt_wrapper.c", "tvm_wrapper.h", "default.json"} <= set(made)
    facts = json.loads(made["default.json"])["modules"]["default"]
    kernels = facts["memory"]["functions"]["operator_functions"]
    code = made.get("default.ll") or made["default.c"]
    assert all(kernel["function_name"] in code for kernel in kernels)
    graph, params = json.loads(made["default.graph"]), relay.load_param_dict(made["default.params"])
    given = {key: value.numpy() for key, value in params.items()} | model.inputs
    library = linked(made, tmp_path, FLAGS, without="rt_wrapper.c")  # which is for TVM's own runtime
    model.check(run(graph, library, given, [each["size_bytes"] for each in facts["memory"]["sids"]]))
    if name == "tvmcg":
        largest = max(each["workspace"][0]["workspace_size_bytes"] for each in kernels)
        assert backend.get_max_workspace_size_from_metadata(json.loads(made["default.json"])) == largest
