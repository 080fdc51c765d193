# Built models as archives of the Model Library Format, by the names and with the facts of TVM 0.14.
import tempfile
from pathlib import Path

import numpy as np
import tvm
import tvm.micro as micro
import tvm.micro.model_library_format as model_library_format
from tvm import relay
from tvm.micro.model_library_format import _GENERATED_VERSION
from tvm.micro.testing.utils import get_conv2d_relay_module
from tvm.relay.backend import Executor, Runtime

import vmkit.mlf

PROGRAM = """
#[version = "0.0.5"]
def @main(%a : Tensor[(1, 2), uint8], %b : Tensor[(1, 2), float32], %c : Tensor[(1, 2), float32]) {
  %0 = cast(%a, dtype="float32") + %b * %c;
  %0
}
"""


def built(name, executor, options=None):
    target = tvm.target.target.micro("host")
    config = {"tir.disable_vectorize": True, "tir.usmp.enable": False}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return relay.build(
            relay.fromtext(PROGRAM),
            target,
            executor=Executor(executor, options),
            runtime=Runtime("crt"),
            mod_name=name,
            params={"c": np.array([[2.0, 4.0]], "float32")},
        )


def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"not refused: {text}")


folder = Path(tempfile.mkdtemp())
first, second = built("first", "aot", {"interface-api": "c", "unpacked-api": True}), built("second", "graph")
micro.export_model_library_format([first, second], folder / "both.tar")
library = vmkit.mlf.load(folder / "both.tar")
assert library.version == _GENERATED_VERSION == model_library_format._GENERATED_VERSION
assert [module["executors"] for module in library.metadata["modules"].values()] == [["aot"], ["graph"]]
graph = library.metadata["modules"]["second"]
assert graph["target"] == [str(tvm.target.target.micro("host"))]
assert graph["memory"]["sids"] == [
    {"storage_id": 0, "size_bytes": 2, "input_binding": "a"},
    {"storage_id": 1, "size_bytes": 8, "input_binding": "b"},
    {"storage_id": 2, "size_bytes": 8, "input_binding": "p0"},
    {"storage_id": 3, "size_bytes": 8},
]
assert graph["memory"]["functions"]["main"] == [
    {
        "device": 1,
        "workspace_size_bytes": 0,
        "constants_size_bytes": 8,
        "io_size_bytes": 18,
        "inputs": {"a": {"dtype": "uint8", "size": 2}, "b": {"dtype": "float32", "size": 8}},
        "outputs": {"output": {"dtype": "float32", "size": 8}},
    }
]
assert "fused_cast_multiply_add" in graph["memory"]["functions"]["operator_functions"][0]["function_name"]
a, b = np.array([[1, 2]], "uint8"), np.array([[0.5, 0.25]], "float32")
np.testing.assert_array_equal(library.build("first").run(a, b)[0], [[2, 3]])

main = get_conv2d_relay_module()["main"]
attrs = tvm.ir.make_node("DictAttrs", output_tensor_names=["scores"])
named = tvm.IRModule.from_expr(relay.Function(main.params, main.body, attrs=attrs))
factory = relay.build(named, tvm.target.target.micro("host"), executor=Executor("aot"), mod_name="mod1")
micro.export_model_library_format(factory, folder / "named.tar")
memory = vmkit.mlf.load(folder / "named.tar").metadata["modules"]["mod1"]["memory"]["functions"]["main"][0]
assert memory["outputs"] == {"scores": {"size": 131072, "dtype": "int32"}} and memory["io_size_bytes"] == 143960

path = folder / "none.tar"
twice = [second, second]
refused(lambda: micro.export_model_library_format(twice, path), AssertionError, "should have unique names")
unsupported = micro.UnsupportedInModelLibraryFormatError
refused(
    lambda: micro.export_model_library_format(tvm.IRModule(), path), unsupported, "vmkit.mlf.export writes operators"
)
refused(micro.Session, NotImplementedError, "tvm.micro.Session is gone; vmkit.mlf.export writes C")
assert not path.exists()
