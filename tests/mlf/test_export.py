"""Models as C99: what the archive holds, what the C computes, and how much memory it takes."""

from __future__ import annotations

import ctypes
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import vmkit
from tests.mlf.built import FLAGS, Built, build
from tests.mlf.networks import keyword_spotting, lstm_cell, model, quantized_cnn
from tests.places import TOP
from vmkit import relay
from vmkit.errors import CompileError, ExecutableError, ModelError, OptionError, TargetError

MNIST = TOP / "vmkit" / "data" / "mnist.onnx"
RNG = np.random.default_rng(0)


def on_vm(network: Any, *inputs: np.ndarray, target: str = "llvm") -> list[np.ndarray]:
    result = vmkit.VirtualMachine(vmkit.compile(network, target), "cpu", num_threads=1).run(*inputs)
    return [each.numpy() for each in (result if isinstance(result, list | tuple) else [result])]


def exported(network: Any, folder: Path, **options: Any) -> Built:
    name = options.get("model_name", "default")
    vmkit.mlf.export(network, folder / f"{name}.tar", **options)
    return build(folder / f"{name}.tar", name)


def assert_same(network: Any, built: Built, *inputs: np.ndarray) -> None:
    for got, expected in zip(built.run(*inputs), on_vm(network, *inputs), strict=True):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got.reshape(expected.shape), expected, rtol=1e-4, atol=1e-6)
        else:
            np.testing.assert_array_equal(got.reshape(expected.shape), expected)


def wrapped(built: Built, image: np.ndarray) -> np.ndarray:
    """Return the one output for the one input by the functions that know no model."""
    library = built.library
    library.TVMWrap_GetInputPtr.restype = library.TVMWrap_GetOutputPtr.restype = ctypes.c_void_p
    assert (library.TVMWrap_Init(), library.TVMWrap_GetNumInputs(), library.TVMWrap_GetNumOutputs()) == (0, 1, 1)
    assert (library.TVMWrap_GetInputSize(0), library.TVMWrap_GetInputSize(1)) == (image.nbytes, 0)
    assert library.TVMWrap_GetOutputPtr(-1) is None
    ctypes.memmove(library.TVMWrap_GetInputPtr(0), image.ctypes.data, image.nbytes)
    assert library.TVMWrap_Run() == 0
    size = library.TVMWrap_GetOutputSize(0)
    return np.frombuffer(ctypes.string_at(library.TVMWrap_GetOutputPtr(0), size), "float32")


def test_archive_of_mnist(tmp_path: Path) -> None:
    image = RNG.random((1, 1, 28, 28), dtype="float32")
    metadata = vmkit.mlf.export(MNIST, tmp_path / "model.tar")
    with tarfile.open(tmp_path / "model.tar") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == [
        "./metadata.json",
        "./codegen/host/include/tvmgen_default.h",
        "./codegen/host/src/default_lib0.c",
        "./codegen/host/src/default_lib1.c",
        "./parameters/default.params",
        "./runtime/include/dlpack/dlpack.h",
        "./runtime/include/tvm/runtime/c_runtime_api.h",
        "./runtime/include/tvm/runtime/crt/error_codes.h",
        "./runtime/include/tvm/runtime/crt/stack_allocator.h",
        "./runtime/include/tvm_wrapper.h",
        "./runtime/src/stack_allocator.c",
        "./runtime/src/tvm_wrapper.c",
        "./src/default.relay",
        "./templates/crt_config.h.template",
        "./templates/platform.c.template",
    ]
    assert all(member.isreg() and member.uid == member.gid == 0 for member in members)
    built = build(tmp_path / "model.tar")
    assert built.metadata == metadata
    assert (metadata["version"], list(metadata["modules"])) == (7, ["default"])
    module = metadata["modules"]["default"]
    assert (module["style"], module["executors"], module["target"]) == ("full-model", ["aot"], ["c"])
    assert built.main["inputs"] == {"Input3": {"size": 3136, "dtype": "float32"}}
    assert built.main["outputs"] == {"Plus214_Output_0": {"size": 40, "dtype": "float32"}}
    assert (built.main["io_size_bytes"], built.main["device"]) == (3176, 1)
    weights = onnx.load(MNIST).graph.initializer
    floats = [w for w in weights if w.data_type == TensorProto.FLOAT]
    assert built.main["constants_size_bytes"] == sum(4 * int(np.prod(w.dims)) for w in floats)
    assert_same(MNIST, built, image)
    assert built.used_bytes(image) == built.main["workspace_size_bytes"]
    np.testing.assert_array_equal(wrapped(built, image), built.run(image)[0])
    assert "nn.conv2d(%Input3" in (built.folder / "src" / "default.relay").read_text()


@pytest.mark.parametrize(
    ("made", "shapes"),
    [(keyword_spotting, [(1, 1, 25, 10)]), (lstm_cell, [(3, 1, 3), (1, 1, 4), (1, 1, 4)])],
)
def test_networks_compute_what_the_machine_does(
    made: Callable[[], onnx.ModelProto], shapes: list[tuple[int, ...]], tmp_path: Path
) -> None:
    inputs = [RNG.random(shape, dtype="float32") for shape in shapes]
    built = exported(made(), tmp_path)
    assert_same(made(), built, *inputs)
    assert built.used_bytes(*inputs) == built.main["workspace_size_bytes"]


def test_quantized_network_is_of_integers_in_memory_too(tmp_path: Path) -> None:
    network = quantized_cnn()
    image = RNG.integers(0, 256, (1, 2, 9, 7)).astype("uint8")
    built = exported(network, tmp_path)
    (got,) = built.run(image)
    (expected,) = on_vm(network, image)
    np.testing.assert_array_equal(got.reshape(expected.shape), expected)
    # Weights of 8 bits; the input less its zero point and the first layer's result with a byte or two an element.
    assert built.main["constants_size_bytes"] <= 8 * 2 * 9 + 8 * 9 + 2 * 8 * 4
    assert built.main["workspace_size_bytes"] <= 2 * (2 + 8) * 63


def test_templates_are_firmware_already(tmp_path: Path) -> None:
    x = relay.var("x", shape=(3,))
    built = exported(relay.Function([x], relay.Tuple([x + x, x])), tmp_path, model_name="sums")
    for name in ("crt_config.h", "platform.c"):
        (tmp_path / name).write_bytes((built.folder / "templates" / f"{name}.template").read_bytes())
    sources = [tmp_path / "platform.c", *built.folder.glob("codegen/host/src/*.c")]
    flags = [*FLAGS, "-include", tmp_path / "crt_config.h", f"-I{built.folder}/codegen/host/include"]
    subprocess.run(["gcc", *flags, *sources, "-o", tmp_path / "run", "-lm"], check=True)
    assert subprocess.run([tmp_path / "run"]).returncode == 0


def test_branches_loops_and_outputs_of_all_kinds(tmp_path: Path) -> None:
    program = relay.parse(
        """
        #[version = "0.0.5"]
        def @count(%i: int32, %a: Tensor[(3), float32], %b: Tensor[(3), float32], %x: Tensor[(3), float32]) {
          if (less(%i, 5)) { @count(add(%i, 1), %b, add(multiply(%a, %x), %b), %x) } else { (%b, %a, %i) }
        }
        def @main(%x: Tensor[(3), float32], %flag: bool, %n: int32) {
          let %y = if (%flag) { exp(%x) } else { if (less(%n, 2)) { sqrt(%x) } else { %x } };
          let %r = @count(%n, %x, %y, %x);
          (%r.0, %r.1, %r.2, %x, %y, %y, reshape(%y, newshape=[3, 1]))
        }
        """
    )
    built = exported(program, tmp_path)
    assert list(built.main["outputs"]) == [f"output{k}" for k in range(7)]
    x = np.array([0.25, 0.5, 2], "float32")
    machine = vmkit.VirtualMachine(vmkit.compile(program, "llvm"), "cpu", num_threads=1)
    for flag, n in ((True, 0), (False, 1), (False, 2), (True, 9)):
        inputs = x, np.array(flag), np.array(n, "int32")
        for got, expected in zip(built.run(*inputs), machine.run(*inputs), strict=True):
            np.testing.assert_allclose(got, expected.numpy().ravel(), rtol=1e-5)
    source = (built.folder / "codegen/host/src/default_lib0.c").read_text()
    assert ("for (;;) {" in source, "malloc" in source) == (True, False)


def test_integers_wrap_and_divide_as_on_the_machine(tmp_path: Path) -> None:
    program = relay.parse(
        """
        #[version = "0.0.5"]
        def @main(%a: Tensor[(6), int8], %b: Tensor[(6), int8], %u: Tensor[(6), uint8], %l: Tensor[(6), int64]) {
          (add(%a, %b), multiply(%a, %b), floor_divide(%a, %b), floor_mod(%a, %b), bitwise_not(%a), abs(%a),
           right_shift(%a, cast(1, dtype="int8")), left_shift(%u, cast(3, dtype="uint8")), cast(%l, dtype="int32"),
           maximum(%l, -9223372036854775807i64), clip(%u, a_min=3f, a_max=200f), cast(%a, dtype="bool"),
           cast(%a, dtype="float64") / cast(3, dtype="float64"))
        }
        """
    )
    built = exported(program, tmp_path)
    inputs = (
        np.array([127, -128, -7, 7, -1, 100], "int8"),
        np.array([1, -1, 2, -2, 3, 7], "int8"),
        np.array([0, 1, 255, 128, 200, 5], "uint8"),
        np.array([-(2**63), 2**62, -1, 0, 5, 2**31], "int64"),
    )
    assert_same(program, built, *inputs)


def test_what_c_cannot_hold_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "model.tar"
    dynamic = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n", 3]}, ["y"], {})
    with pytest.raises(ModelError, match=r"C needs inputs of known sizes.*\n  input x: .*3"):
        vmkit.mlf.export(dynamic, path)
    counted = model([helper.make_node("NonZero", ["x"], ["places"], "find/it")], {"x": [4]}, ["places"], {})
    with pytest.raises(
        ModelError, match=r"tensors of sizes that are known when it is compiled\n  argwhere at node find/it: its result"
    ):
        vmkit.mlf.export(counted, path)
    inside = relay.parse(
        """
        #[version = "0.0.5"]
        def @main(%x: Tensor[(4), float32]) { sum(argwhere(%x)) }
        """
    )
    with pytest.raises(ModelError, match=r"compiled\n  argwhere at from_string:\d+: its result is Tensor\[\(\?, 1\)"):
        vmkit.mlf.export(inside, path)
    deep = relay.parse(
        """
        #[version = "0.0.5"]
        def @sum(%i: int32) -> int32 { if (less(%i, 1)) { 0 } else { add(%i, @sum(subtract(%i, 1))) } }
        def @main(%n: int32) { @sum(%n) }
        """
    )
    with pytest.raises(CompileError, match="calls itself elsewhere than at its end"):
        vmkit.mlf.export(deep, path)
    kept = relay.parse('#[version = "0.0.5"]\ndef @main(%f: fn (float32) -> float32, %x: float32) { %f(%x) }')
    with pytest.raises(ModelError, match="input f: fn"):
        vmkit.mlf.export(kept, path)
    x = relay.var("x", shape=(2,))
    twice, back = relay.Function([x], x + x), relay.Function([x], -x)
    for functions in (twice, relay.Call(relay.If(relay.const(True), twice, back), [x])):
        with pytest.raises(ModelError, match=r"compiled\n  Function: a value of type fn \(Tensor\[\(2\), float32\]\)"):
            vmkit.mlf.export(relay.Function([x], functions), path)
    pair = relay.var("x", type_annotation=relay.TupleType([relay.TensorType((2,))] * 2))
    alike = relay.Function([pair, relay.var("x_1", shape=(2,))], relay.TupleGetItem(pair, 0))
    with pytest.raises(ModelError, match="two inputs are called 'x_1', and a description has them by name"):
        vmkit.mlf.export(alike, path)
    half = relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), bfloat16]) { add(%x, %x) }')
    with pytest.raises(CompileError, match="C has no elements of bfloat16"):
        vmkit.mlf.export(half, path)
    with pytest.raises(TargetError, match="for one target, 'c' or 'llvm', not cuda"):
        vmkit.mlf.export(MNIST, path, target="cuda")
    with pytest.raises(ModelError, match="'a-b' is no identifier of C"):
        vmkit.mlf.export(MNIST, path, model_name="a-b")
    with pytest.raises(OptionError, match="expected a power of 2, got 12"):
        vmkit.mlf.export(MNIST, path, workspace_byte_alignment=12)
    with pytest.raises(ExecutableError, match=r"^cannot write .*: it is no regular file$"):
        vmkit.mlf.export(twice, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_that_c_has_itself_become_others(tmp_path: Path) -> None:
    network = model(
        [
            helper.make_node("Add", ["double", "in:0"], ["s"]),
            helper.make_node("Add", ["s", "in_0"], ["IN/0"]),
            helper.make_node("ReduceMax", ["IN/0"], ["workspace"], keepdims=0),
        ],
        {"double": [2], "in:0": [2], "in_0": [2]},
        ["IN/0", "workspace", "double"],
        {},
    )
    built = exported(network, tmp_path, model_name="sums", workspace_byte_alignment=64)
    x = np.array([1, 2], "float32")
    made, largest, given = built.run(x, 2 * x, 4 * x)
    np.testing.assert_array_equal(np.stack([made, given]), [7 * x, x])
    assert (largest, list(built.main["outputs"])) == ([14], ["IN/0", "workspace", "double"])
    header = (built.folder / "codegen/host/include/tvmgen_sums.h").read_text()
    assert [line.split(";")[0].split("* ")[1] for line in header.splitlines() if "void* " in line] == [
        "double_",
        "in_0",
        "in_0_1",
        "IN_0_2",
        "workspace_1",
        "double_",
    ]
    assert "#define TVMGEN_SUMS_IN_0_2_SIZE 8\n#define TVMGEN_SUMS_WORKSPACE_1_SIZE 4\n" in header
