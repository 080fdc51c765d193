"""Compilation: models of every form, stages, options, records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm.ir.instrument import pass_instrument
from tvm.s_tir.meta_schedule.database import ScheduleFnDatabase

import vmkit
from tests.relax.programs import add_rows
from vmkit import relay
from vmkit.errors import CompileError, InputError, ModelError, OptionError, TargetError

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 2), float32]) { nn.relu(add(%x, -1f)) }\n'


def module() -> tvm.IRModule:
    """Return ``main(x, w, b) = relu(x * w + b)``: three kernels, or one if they are fused."""
    x, w, b = relay.var("x", shape=(relay.Any(), 4)), relay.var("w", shape=(4,)), relay.var("b", shape=(4,))
    return tvm.IRModule({"main": relay.Function([x, w, b], relay.nn.relu(relay.add(relay.multiply(x, w), b)))})


WEIGHTS = {"w": np.full(4, 2, "float32"), "b": np.array([-8, -4, 0, 4], "float32")}


def kernels(executable: vmkit.Executable) -> list[str]:
    """Return the names of the kernels, without the one that computes shapes."""
    return [name for name in executable.primitive_ops if name != "shape_func"]


def run(executable: vmkit.Executable, *args: Any) -> Any:
    return vmkit.VirtualMachine(executable, "cpu").run(*args).numpy().tolist()


def error_of(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# -- models


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "model.relay").write_text(TEXT)
    (tmp_path / "model.json").write_text(tvm.ir.save_json(relay.parse(TEXT)))
    (tmp_path / "function.json").write_text(tvm.ir.save_json(relay.parse(TEXT)["main"]))
    inputs, outputs = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [inputs], [outputs])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    return tmp_path


@pytest.mark.parametrize("name", ["model.relay", "model.json", "function.json"])
def test_relay_files(files: Path, name: str) -> None:
    for path in (files / name, str(files / name)):
        executable = vmkit.compile(path, "llvm")
        assert str(executable.signature) == "main(x: float32[?, 2]) -> float32[?, 2]"
        assert run(executable, [[3, 0]]) == [[2, 0]]


def test_onnx_files_and_models(files: Path) -> None:
    model = onnx.load(files / "model.onnx")
    for form in (files / "model.onnx", model):
        assert str(vmkit.compile(form, "llvm").signature) == "main(x: float32[n, 2]) -> (y: float32[n, 2])"
    assert vmkit.compile(model, "llvm", shapes={"x": (3, 2)}).inputs[0].shape == (3, 2)


def test_relay_modules_and_functions() -> None:
    mod = relay.parse(TEXT)
    assert run(vmkit.compile(mod, "llvm"), [[3, 0]]) == run(vmkit.compile(mod["main"], "llvm"), [[3, 0]]) == [[2, 0]]


def test_relax_modules() -> None:
    mod, signature = add_rows()
    executable = vmkit.compile(mod, "llvm")
    assert executable.signature.inputs == signature.inputs
    assert run(executable, np.ones((2, 3), "float32"), [1, 2]) == [4, 5]
    bound = vmkit.compile(mod, "llvm", params={"y": np.array([10, 20], "float32")})
    assert run(bound, np.ones((2, 3), "float32")) == [13, 23]


def test_parameters_of_one_name_are_told_apart() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    executable = vmkit.compile(relay.Function([x, y], relay.subtract(x, y)), "llvm")
    assert [spec.name for spec in executable.inputs] == ["x", "x1"]
    assert vmkit.VirtualMachine(executable).run(x1=[1, 1], x=[5, 6]).numpy().tolist() == [4, 5]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("modl.relay", None, "modl.relay: there is no such file; did you mean 'model.relay'?"),
        ("folder", None, "folder has no ONNX file, only nothing"),
        ("model.vmx", b"", "model.vmx: an executable is compiled already; vmkit.load reads it"),
        ("model.pb", b"", "model.pb: the suffix '.pb' is not one of .onnx, .pt2, .tflite, .mlir, .relay, .txt, .json"),
        ("bad.json", b"{", "bad.json: this is not JSON: "),
        ("list.json", b"[]", "list.json: a document of TVM's JSON is an object with a 'root' and a list of 'nodes'"),
        ("bad.relay", b"\xff\xfe", "bad.relay: expected text in UTF-8, but "),
        ("bad.onnx", b"text", "bad.onnx is no ONNX model"),
        ("empty.onnx", b"", "empty.onnx is empty"),
    ],
)
def test_files_that_hold_no_model(files: Path, name: str, content: bytes | None, said: str) -> None:
    (files / "folder").mkdir()
    if content is not None:
        (files / name).write_bytes(content)
    assert said in error_of(lambda: vmkit.compile(files / name), ModelError)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            3,
            "a model is a path, the bytes of an ONNX file, an onnx.ModelProto, a torch.export.ExportedProgram, "
            "a tvm.IRModule or a relay.Function, not int",
        ),
        (tvm.IRModule({}), "the module has no function 'main', only nothing"),
        (tvm.IRModule({"f": relay.parse(TEXT)["main"]}), "the module has no function 'main', only f"),
    ],
)
def test_things_that_are_no_model(model: Any, said: str) -> None:
    assert error_of(lambda: vmkit.compile(model, "llvm"), ModelError) == said


def test_shapes_are_for_files_that_leave_them_open() -> None:
    said = error_of(lambda: vmkit.compile(module(), shapes={"x": (1, 4)}), ModelError)
    assert "shapes are for ONNX and TFLite models; a module declares the shapes" in said


# -- stages


def test_the_stages_make_what_compile_makes() -> None:
    compiler = vmkit.VMCompiler()
    compiler.set_params(WEIGHTS)
    assert set(compiler.get_params()) == {"w", "b"}
    np.testing.assert_array_equal(compiler.get_params()["b"].numpy(), WEIGHTS["b"])
    compiler.lower(module(), target="llvm")
    assert compiler.get_params() == {}, "they are in the program now"
    compiler.codegen()
    staged, whole = compiler.get_exec(), vmkit.compile(module(), "llvm", params=WEIGHTS)
    assert str(staged.signature) == str(whole.signature) == "main(x: float32[?, 4]) -> float32[?, 4]"
    assert run(staged, [[1, 2, 3, 4]]) == run(whole, [[1, 2, 3, 4]]) == [[0, 0, 6, 12]]


def test_stages_out_of_order() -> None:
    compiler = vmkit.VMCompiler()
    assert error_of(compiler.get_exec, CompileError) == (
        "No executable to return. Did you forget to call VMCompiler.lower?"
    )
    assert error_of(compiler.codegen, CompileError) == "there is nothing to build; call lower first"
    compiler.lower(module(), "llvm")
    assert (
        error_of(compiler.get_exec, CompileError) == "Executable is empty. Did you forget to call VMCompiler.codegen?"
    )
    again = error_of(lambda: compiler.lower(module(), "llvm"), CompileError)
    assert again == "Can't reuse VMCompiler object for multiple modules"


def test_optimize_returns_relay_with_the_weights_bound() -> None:
    compiler = vmkit.VMCompiler()
    optimized, left = compiler.optimize(module(), "llvm", params=WEIGHTS)
    assert left == compiler.get_params() == {}
    assert [p.name_hint for p in optimized["main"].params] == ["x"]
    assert str(optimized["main"].checked_type.ret_type) == "Tensor[(?, 4), float32]"
    compiler.lower(optimized, "llvm")
    compiler.codegen()
    assert run(compiler.get_exec(), [[1, 2, 3, 4]]) == [[0, 0, 6, 12]]


def test_wrong_weights_stop_every_way_in() -> None:
    wrong = {"w": np.ones(3, "float32")}
    said = "1 of the params does not match @main\n  w: Tensor[(3), float32], expected Tensor[(4), float32]"
    assert error_of(lambda: vmkit.compile(module(), "llvm", params=wrong), InputError) == said
    assert error_of(lambda: vmkit.VMCompiler().optimize(module(), "llvm", params=wrong), InputError) == said
    assert "w: None is no tensor" in error_of(lambda: vmkit.VMCompiler().set_params({"w": None}), InputError)


# -- options


@pytest.mark.parametrize(
    ("options", "fused"),
    [
        ({"opt_level": 0}, False),
        ({"opt_level": 1}, True),
        ({"opt_level": 3}, True),
        ({"disabled_pass": ["FuseOps"]}, False),
    ],
)
def test_the_pass_context_decides_on_fusion(options: dict[str, Any], fused: bool) -> None:
    with vmkit.PassContext(**options):
        executable = vmkit.compile(module(), "llvm", params=WEIGHTS)
    assert kernels(executable) == (["fused_multiply_add_nn_relu"] if fused else ["multiply", "add", "nn_relu"])
    assert run(executable, [[1, 2, 3, 4]]) == [[0, 0, 6, 12]]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, ["add"]),
        ({"opt_level": 1}, ["add"]),
        ({"opt_level": 0}, ["exp", "add"]),
        ({"opt_level": 0, "required_pass": ["FoldConstant"]}, ["add"]),
        ({"disabled_pass": ["FoldConstant"]}, ["fused_exp_add"]),
    ],
)
def test_what_depends_on_constants_alone_is_computed_when_compiling(options: dict[str, Any], left: list[str]) -> None:
    x = relay.var("x", shape=(relay.Any(), 2))
    function = relay.Function([x], relay.add(x, relay.exp(relay.const(np.zeros(2, "float32")))))
    with vmkit.PassContext(**options):
        executable = vmkit.compile(function, "llvm")
    assert kernels(executable) == left
    assert run(executable, [[1, 2]]) == [[2, 3]]


def test_an_unknown_pass_is_an_error_also_from_tvms_own_context() -> None:
    with tvm.transform.PassContext(disabled_pass=["FuseOp"]):
        said = error_of(lambda: vmkit.compile(module(), "llvm"), OptionError)
    assert "disabled_pass: there is no pass 'FuseOp'; did you mean 'FuseOps'" in said


def test_instruments_see_the_passes() -> None:
    seen = []

    @pass_instrument
    class Watch:
        def run_before_pass(self, mod: tvm.IRModule, info: Any) -> None:
            seen.append(str(info.name))

    with vmkit.PassContext(instruments=[Watch()]):
        vmkit.compile(module(), "llvm")
    assert {"InferType", "FoldConstant", "FuseOps", "FuseTIR", "VMShapeLower", "tirx.VectorizeLoop"} <= set(seen)
    assert seen.index("FuseOps") < seen.index("VMShapeLower")


# -- targets


@pytest.mark.parametrize(
    "target", [None, "native", "llvm", {"kind": "llvm"}, tvm.target.Target("llvm"), {"cpu": "llvm"}, ["llvm"]], ids=str
)
def test_targets_of_every_form(target: Any) -> None:
    executable = vmkit.compile(module(), target)
    assert executable.device_kind == "cpu"
    assert ("mcpu" in executable.target.attrs) is (target in (None, "native"))
    assert run(executable, [[1.0] * 4], [2.0] * 4, [-1.0] * 4) == [[1.0] * 4]


def test_c_source_as_a_target_runs() -> None:
    x = relay.var("x", shape=(relay.Any(), 2, 8, 8))
    weight = relay.const(np.full((4, 2, 3, 3), 0.5, "float32"))
    function = relay.Function([x], relay.nn.relu(relay.nn.conv2d(x, weight, kernel_size=(3, 3), channels=4)))
    values = np.random.default_rng(0).standard_normal((2, 2, 8, 8)).astype("float32")
    c, llvm = (vmkit.VirtualMachine(vmkit.compile(function, target=t)).run(values).numpy() for t in ("c", "llvm"))
    np.testing.assert_allclose(c, llvm, rtol=1e-5, atol=1e-6)


def test_the_target_in_scope_is_the_default() -> None:
    with tvm.target.Target({"kind": "llvm", "num-cores": 3}):
        assert int(vmkit.compile(module()).target.attrs["num-cores"]) == 3


def test_a_wrong_target_is_found_before_the_model_is_looked_at() -> None:
    ill_typed = relay.Function([], relay.add(relay.const(np.ones(2)), relay.const(np.ones(3))))
    assert "there is no target kind 'lvm'" in error_of(lambda: vmkit.compile(ill_typed, "lvm"), TargetError)


# -- tuning records


def test_the_callers_own_records_are_asked_about_every_kernel() -> None:
    asked: list[tvm.IRModule] = []

    def ask(schedule: tvm.s_tir.Schedule) -> bool:
        asked.append(schedule.mod)
        return False

    with ScheduleFnDatabase(ask):
        executable = vmkit.compile(module(), "llvm", params=WEIGHTS)
    assert len(asked) == len(kernels(executable)) == 1
    assert run(executable, [[1, 2, 3, 4]]) == [[0, 0, 6, 12]]
