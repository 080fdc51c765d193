"""``tvm.micro``: built models as archives, by the names and with the facts of TVM 0.14."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vmkit
import vmkit.compat

vmkit.compat.install()

import tvm  # noqa: E402
from tvm import micro, relay  # type: ignore[attr-defined]  # noqa: E402
from tvm.micro import model_library_format  # type: ignore[import-not-found]  # noqa: E402
from tvm.micro.testing.utils import get_conv2d_relay_module  # type: ignore[import-not-found]  # noqa: E402
from tvm.relay.backend import Executor, Runtime  # type: ignore[import-not-found]  # noqa: E402

PROGRAM = """
#[version = "0.0.5"]
def @main(%a : Tensor[(1, 2), uint8], %b : Tensor[(1, 2), float32], %c : Tensor[(1, 2), float32]) {
  %0 = cast(%a, dtype="float32") + %b * %c;
  %0
}
"""


def built(name: str, executor: str, **options: object) -> object:
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


def test_models_with_an_entry_and_as_a_graph_in_one_archive(tmp_path: Path) -> None:
    models = [built("first", "aot", **{"interface-api": "c", "unpacked-api": True}), built("second", "graph")]
    path = tmp_path / "lib.tar"
    assert micro.export_model_library_format(models, path) == path
    library = vmkit.mlf.load(path)
    first, second = (library.metadata["modules"][name] for name in ("first", "second"))
    assert library.version == model_library_format._GENERATED_VERSION
    assert (first["executors"], second["executors"]) == (["aot"], ["graph"])
    assert second["memory"]["sids"] == [
        {"storage_id": 0, "size_bytes": 2, "input_binding": "a"},
        {"storage_id": 1, "size_bytes": 8, "input_binding": "b"},
        {"storage_id": 2, "size_bytes": 8, "input_binding": "p0"},
        {"storage_id": 3, "size_bytes": 8},
    ]
    functions = second["memory"]["functions"]
    assert functions["main"] == [
        {
            "device": 1,
            "workspace_size_bytes": 0,
            "constants_size_bytes": 8,
            "io_size_bytes": 18,
            "inputs": {"a": {"dtype": "uint8", "size": 2}, "b": {"dtype": "float32", "size": 8}},
            "outputs": {"output": {"dtype": "float32", "size": 8}},
        }
    ]
    assert "fused_cast_multiply_add" in functions["operator_functions"][0]["function_name"]
    a, b = np.array([[1, 2]], "uint8"), np.array([[0.5, 0.25]], "float32")
    np.testing.assert_array_equal(library.build("first").run(a, b)[0], [[2, 3]])


def test_what_cannot_be_exported_says_why(tmp_path: Path) -> None:
    one = built("one", "graph")
    with pytest.raises(AssertionError, match="Multiple modules should have unique names"):
        micro.export_model_library_format([one, one], tmp_path / "lib.tar")
    with pytest.raises(micro.UnsupportedInModelLibraryFormatError, match=r"vmkit\.mlf\.export writes operators"):
        micro.export_model_library_format(tvm.IRModule(), tmp_path / "lib.tar")
    with pytest.raises(NotImplementedError, match=r"tvm\.micro\.Session is gone; vmkit\.mlf\.export writes C"):
        micro.Session()
    assert list(tmp_path.iterdir()) == []


def test_the_names_of_outputs_are_those_that_the_program_says(tmp_path: Path) -> None:
    module = get_conv2d_relay_module()
    attrs = tvm.ir.make_node("DictAttrs", output_tensor_names=["scores"])
    main = module["main"]
    named = tvm.IRModule.from_expr(relay.Function(main.params, main.body, attrs=attrs))
    factory = relay.build(named, tvm.target.target.micro("host"), executor=Executor("aot"), mod_name="mod1")
    micro.export_model_library_format(factory, tmp_path / "lib.tar")
    facts = vmkit.mlf.load(tmp_path / "lib.tar").metadata["modules"]["mod1"]["memory"]["functions"]["main"][0]
    assert facts["outputs"] == {"scores": {"size": 131072, "dtype": "int32"}}
    assert facts["io_size_bytes"] == 143960
