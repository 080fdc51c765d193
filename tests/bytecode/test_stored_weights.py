"""Large constants of a loaded program: used where the file was read to, right wherever a program reads them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

import vmkit
from vmkit import relay
from vmkit.bytecode import Program, TensorConstant, lift_weights
from vmkit.bytecode.placeholders import WEIGHT_BYTES
from vmkit.bytecode.stored_weights import moved_to_block, with_block
from vmkit.errors import ExecutableError
from vmkit.executable.archive import read_archive, write_archive
from vmkit.executable.description import MALFORMED
from vmkit.runtime.machine import VirtualMachine

SIZE = WEIGHT_BYTES // 4
W = np.random.default_rng(0).standard_normal(SIZE).astype("float32")
X = np.random.default_rng(1).standard_normal(SIZE).astype("float32")


def scalar(name: str, dtype: str = "int32") -> relay.Var:
    return relay.var(name, shape=(), dtype=dtype)


def vector(name: str) -> relay.Var:
    return relay.var(name, shape=(SIZE,))


def plain() -> tvm.IRModule:
    x = vector("x")
    return tvm.IRModule({"main": relay.Function([x], x * relay.const(W) + relay.const(W + 1))})


def branches() -> tvm.IRModule:
    x = vector("x")
    chosen = relay.If(relay.less(relay.take(x, relay.const(0)), relay.const(9.0)), x * relay.const(W), x)
    return tvm.IRModule({"main": relay.Function([x], chosen + relay.const(W))})


def loop() -> tvm.IRModule:
    """Add W three times, by a call in tail position."""
    mod = tvm.IRModule({})
    again = relay.GlobalVar("again")
    n, acc = scalar("n"), vector("acc")
    body = relay.If(relay.equal(n, relay.const(0)), acc, relay.Call(again, [n - relay.const(1), acc + relay.const(W)]))
    tensor = relay.TensorType((SIZE,), "float32")
    mod[again] = relay.Function([n, acc], body, tensor)
    x = vector("x")
    mod["main"] = relay.Function([x], relay.Call(again, [relay.const(3), x]))
    return mod


def recursion() -> tvm.IRModule:
    """f(n, x) is x where n is 0, else f(n - 1, x) * W + x: the call is not the last act."""
    mod = tvm.IRModule({})
    again = relay.GlobalVar("again")
    n, acc = scalar("n"), vector("acc")
    inner = relay.Call(again, [n - relay.const(1), acc]) * relay.const(W) + acc
    body = relay.If(relay.equal(n, relay.const(0)), acc, inner)
    mod[again] = relay.Function([n, acc], body, relay.TensorType((SIZE,), "float32"))
    x = vector("x")
    mod["main"] = relay.Function([x], relay.Call(again, [relay.const(3), x]))
    return mod


def closure() -> tvm.IRModule:
    """A function value that captures x and reads W, chosen at run time."""
    x, y, z = vector("x"), vector("y"), vector("z")
    made = relay.If(
        relay.less(relay.take(x, relay.const(0)), relay.const(9.0)),
        relay.Function([y], y * relay.const(W) + x),
        relay.Function([z], z),
    )
    f = relay.var("f")
    return tvm.IRModule({"main": relay.Function([x], relay.Let(f, made, relay.Call(f, [x + x])))})


CASES = {
    plain: X * W + W + 1,
    branches: X * W + W,
    loop: X + 3 * W,
    recursion: ((X * W + X) * W + X) * W + X,
    closure: 2 * X * W + X,
}


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_a_loaded_program_reads_its_weights(build: object, tmp_path: Path) -> None:
    exe = vmkit.compile(build(), target="llvm")  # type: ignore[operator]
    assert any(isinstance(c, TensorConstant) and len(c.data) >= WEIGHT_BYTES for c in exe.program.constants)
    assert lift_weights(exe.program)[2], "nothing is passed"
    exe.export(tmp_path / "model.vmx")
    loaded = vmkit.load(tmp_path / "model.vmx")
    assert loaded.code == exe.code and loaded.constants == exe.constants
    machine = VirtualMachine(loaded)
    assert loaded.holds_weights, "the runtime has a copy"
    for _ in range(2):
        np.testing.assert_allclose(machine.run(X).numpy(), CASES[build], rtol=1e-5, atol=1e-5)  # type: ignore[index]
    np.testing.assert_allclose(VirtualMachine(exe).run(X).numpy(), CASES[build], rtol=1e-5, atol=1e-5)  # type: ignore[index]


def constant_result(tmp_path: Path) -> Path:
    x = relay.var("x", shape=(1,))
    exe = vmkit.compile(relay.Function([x], relay.Tuple([x, relay.const(W)])), target="llvm")
    exe.export(tmp_path / "model.vmx")
    return tmp_path / "model.vmx"


def test_weights_are_not_copied(tmp_path: Path) -> None:
    loaded = vmkit.load(constant_result(tmp_path))
    results = [VirtualMachine(loaded).run([1.0])[1] for _ in range(2)]
    (held,) = [c.data for c in loaded.program.constants if isinstance(c, TensorConstant) and len(c.data) > 4]
    assert {result.data_ptr() for result in results} == {np.frombuffer(held, "uint8").ctypes.data}
    np.testing.assert_array_equal(results[0].numpy(), W)


def test_weights_are_written_from_where_they_are(tmp_path: Path) -> None:
    program = vmkit.load(constant_result(tmp_path)).program
    (held,) = [c.data for c in program.constants if isinstance(c, TensorConstant) and len(c.data) > 4]
    _, (first, *_) = moved_to_block(program)
    assert np.shares_memory(np.frombuffer(first, "uint8"), np.frombuffer(held, "uint8"))


def test_a_result_outlives_executable_and_machine(tmp_path: Path) -> None:
    result = VirtualMachine(vmkit.load(constant_result(tmp_path))).run([1.0])[1]
    np.testing.assert_array_equal(result.numpy(), W)


def test_an_altered_weight_is_refused(tmp_path: Path) -> None:
    path = constant_result(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.find(W.tobytes()) + 1000
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(ExecutableError, match=r"altered: weights\.bin does not have the digest recorded for it"):
        vmkit.load(path)


def test_a_weight_outside_of_the_block_is_refused(tmp_path: Path) -> None:
    path = constant_result(tmp_path)
    manifest, members = read_archive(path)
    kept = {key: value for key, value in manifest.items() if key not in ("format", "members")}
    write_archive(path, kept, {**members, "weights.bin": members["weights.bin"][:-64]})
    with pytest.raises(ExecutableError, match="a constant of 65536 bytes at 0 is not in the 65472 bytes of weights"):
        vmkit.load(path)


@pytest.mark.parametrize("changes", [{"shape": [-1, -16]}, {"shape": [17]}, {"place": -64}, {"size": 65}])
def test_a_weight_that_is_not_whole_is_refused(changes: dict[str, object]) -> None:
    said = {"dtype": [2, 32, 1], "device": [1, 0], "shape": [16], "place": 0, "size": 64, "reserved": 0}
    program = Program("", (), (), ("vmkit.weight:" + json.dumps(said),), ())
    (weight,) = with_block(program, memoryview(bytes(64))).constants
    assert isinstance(weight, TensorConstant) and weight.shape == (16,)
    broken = replace(program, constants=("vmkit.weight:" + json.dumps({**said, **changes}),))
    with pytest.raises(ExecutableError, match="is not in the 64 bytes of weights"):
        with_block(broken, memoryview(bytes(64)))


def test_a_file_of_the_first_format_is_read(tmp_path: Path) -> None:
    path = constant_result(tmp_path)
    code = vmkit.load(path).code
    manifest, members = read_archive(path)
    kept = {key: value for key, value in manifest.items() if key not in ("format", "members", "format_version")}
    libraries = {name: data for name, data in members.items() if name.startswith("lib")}
    write_archive(path, {**kept, "format_version": 1}, {"code.bin": code, **libraries})
    loaded = vmkit.load(path)
    assert loaded.code == code
    np.testing.assert_array_equal(VirtualMachine(loaded).run([1.0])[1].numpy(), W)


def test_a_loaded_program_can_be_taken_apart_and_joined(tmp_path: Path) -> None:
    exe = vmkit.compile(plain(), target="llvm")
    exe.export(tmp_path / "model.vmx")
    loaded = vmkit.load(tmp_path / "model.vmx")
    code, lib = loaded.save()
    joined = vmkit.Executable.load_exec(code, lib)
    np.testing.assert_allclose(VirtualMachine(joined).run(X).numpy(), CASES[plain], rtol=1e-5, atol=1e-5)
    moved = loaded.get_late_bound_consts(WEIGHT_BYTES)
    assert len(moved) == 2
    loaded.load_late_bound_consts_from_map(moved)
    np.testing.assert_allclose(VirtualMachine(loaded).run(X).numpy(), CASES[plain], rtol=1e-5, atol=1e-5)


def test_a_program_without_weights_is_left_alone() -> None:
    x = relay.var("x", shape=(2,))
    program = vmkit.compile(relay.Function([x], x + relay.const(1.0)), target="llvm").program
    assert lift_weights(program) == (program, (), set())


HALVES = {
    "float16": W.astype("float16").astype("float32"),
    "bfloat16": (W.view("uint32") & np.uint32(0xFFFF0000)).view("float32") * np.float32(2.0**40),
}


def added(weight: np.ndarray) -> vmkit.Executable:
    x = vector("x")
    return vmkit.compile(relay.Function([x], x + relay.const(weight)), target="llvm")


@pytest.mark.parametrize("dtype", HALVES)
def test_a_file_holds_numbers_of_float32_in_16_bits_that_hold_them(dtype: str, tmp_path: Path) -> None:
    path, weight = tmp_path / "model.vmx", HALVES[dtype]
    made = added(weight)
    made.export(path)
    manifest, members = read_archive(path)
    assert (manifest["format_version"], len(members["weights.bin"])) == (4, weight.nbytes // 2)
    for mapped in (True, False):
        loaded = vmkit.load(path, map_weights=mapped)
        assert loaded.code == made.code and loaded.constants == made.constants
        np.testing.assert_array_equal(VirtualMachine(loaded).run(X).numpy(), X + weight)
    loaded.export(tmp_path / "again.vmx")
    assert (tmp_path / "again.vmx").read_bytes() == path.read_bytes()


def test_a_block_of_which_most_was_widened_is_not_kept(tmp_path: Path) -> None:
    x, path = vector("x"), tmp_path / "model.vmx"
    others = [HALVES["float16"] * np.float32(2.0**n) for n in range(3)]
    for weights in ([W, *others[:1]], [W, *others]):
        sums = x
        for weight in weights:
            sums = sums * relay.const(weight)
        vmkit.compile(relay.Function([x], sums), target="llvm").export(path)
        _, members = read_archive(path)
        program = with_block(vmkit.bytecode.decode(members["code.bin"]), members["weights.bin"])
        (plain,) = (c for c in program.constants if isinstance(c, TensorConstant) and (c.numpy() == W).all())
        is_part = np.shares_memory(np.frombuffer(plain.data, "uint8"), np.frombuffer(members["weights.bin"], "uint8"))
        assert is_part == (len(weights) < 3)
        expected = np.prod([X, *weights], axis=0)
        np.testing.assert_allclose(VirtualMachine(vmkit.load(path)).run(X).numpy(), expected, rtol=1e-5)


def test_a_file_of_other_numbers_is_what_older_readers_read(tmp_path: Path) -> None:
    weight = HALVES["float16"].copy()
    weight[-1] = np.float32(0.1)
    added(weight).export(tmp_path / "model.vmx")
    manifest, members = read_archive(tmp_path / "model.vmx")
    assert (manifest["format_version"], len(members["weights.bin"])) == (2, weight.nbytes)


HALF = {"dtype": [2, 32, 1], "device": [1, 0], "shape": [4], "place": 0, "size": 8, "reserved": 0, "stored": [2, 16, 1]}


def half(said: dict[str, object]) -> Program:
    return Program("", (), (), ("vmkit.weight:" + json.dumps(said),), ())


def test_a_text_says_that_numbers_are_widened() -> None:
    block = memoryview(np.array([1, -0.0, np.inf, 2.0**-24], "float16").tobytes())
    (constant,) = with_block(half(HALF), block).constants
    assert isinstance(constant, TensorConstant) and constant.dtype_name == "float32"
    np.testing.assert_array_equal(constant.numpy(), np.array([1, -0.0, np.inf, 2.0**-24], "float32"))


@pytest.mark.parametrize(
    "changes",
    [
        {"stored": [0, 16, 1]},
        {"stored": [2, 32, 1]},
        {"stored": [2, 16, 2]},
        {"stored": [2, 8, 1]},
        {"dtype": [0, 32, 1]},
        {"dtype": [2, 64, 1]},
        {"dtype": [2, 16, 1]},
        {"device": [2, 0]},
        {"shape": [3]},
        {"shape": [5]},
        {"shape": [-4]},
        {"shape": [-2, -2]},
        {"shape": [1 << 62, 4]},
        {"size": 7},
        {"size": 9},
        {"size": 16},
        {"place": 8},
        {"place": -8},
    ],
    ids=json.dumps,
)
def test_numbers_that_cannot_be_widened_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ExecutableError, match=r"cannot be widened|is not in the 12 bytes"):
        with_block(half({**HALF, **changes}), memoryview(bytes(12)))


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("value", [None, "x", {}, [[1]], 2**70, 0.5], ids=str)
def test_a_text_that_says_something_else_of_them_is_found_out(name: str, value: object) -> None:
    if name == "reserved":
        return
    with pytest.raises((ExecutableError, *MALFORMED)):
        with_block(half({**HALF, name: value}), memoryview(bytes(12)))
