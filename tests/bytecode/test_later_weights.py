"""Weights that are transformed when a program starts: small in files, there as long as somebody has them, checked."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import vmkit
from tests.kernels.written_kernels import convolved
from vmkit import relay
from vmkit.bytecode import Program, TensorConstant
from vmkit.bytecode.later_weights import LaterConstant
from vmkit.bytecode.stored_weights import moved_to_block, with_block
from vmkit.compiler.snapshots import Snapshots
from vmkit.errors import ExecutableError
from vmkit.executable.archive import read_archive, write_archive
from vmkit.executable.description import MALFORMED
from vmkit.relay.json import load_json, save_json
from vmkit.values.halves import narrowed

CHANNELS = 96
WEIGHT = np.random.default_rng(1).standard_normal((3, 3, CHANNELS, CHANNELS)).astype("float32") / 30
X = np.random.default_rng(0).standard_normal((1, 16, 16, CHANNELS)).astype("float32")
EXPECTED = convolved(X, WEIGHT, (1, 1, 1, 1))


def network(*weights: np.ndarray, is_known: bool = True) -> relay.Function:
    """Return convolutions beside each other, of images of one size or of any height and width."""
    height, width = (16, 16) if is_known else (relay.Any(), relay.Any())
    x = relay.var("x", shape=(1, height, width, CHANNELS))
    layers = [
        relay.nn.conv2d(x, relay.const(w), padding=(1, 1), data_layout="NHWC", kernel_layout="HWIO") for w in weights
    ]
    return relay.Function([x], relay.Tuple(layers))


@pytest.fixture(scope="module")
def exe() -> vmkit.Executable:
    return vmkit.compile(network(WEIGHT, WEIGHT * 2, WEIGHT), target="llvm")


@pytest.fixture
def path(exe: vmkit.Executable, tmp_path: Path) -> Path:
    exe.export(tmp_path / "model.vmx")
    return tmp_path / "model.vmx"


def assert_computes(executable: vmkit.Executable) -> None:
    results = vmkit.VirtualMachine(executable).run(X)
    for result, factor in zip(results, (1, 2, 1), strict=True):
        np.testing.assert_allclose(result.numpy(), EXPECTED * factor, rtol=1e-3, atol=1e-4)


def later(program: Program) -> list[LaterConstant]:
    return [constant for constant in program.constants if isinstance(constant, LaterConstant)]


def test_convolutions_of_one_shape_keep_weights_of_their_own(exe: vmkit.Executable) -> None:
    assert len(later(exe.program)) == 2  # of equal weights one
    assert_computes(exe)


def test_a_file_holds_the_weights_as_they_were(exe: vmkit.Executable, path: Path) -> None:
    _, members = read_archive(path)
    assert len(members["weights.bin"]) == 2 * WEIGHT.nbytes
    loaded = vmkit.load(path)
    assert later(loaded.program) == later(exe.program)
    assert loaded.code == exe.code and loaded.constants == exe.constants and loaded.bytecode == exe.bytecode
    assert_computes(loaded)
    loaded.export(path.with_name("again.vmx"))
    assert path.with_name("again.vmx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_file_holds_weights_in_16_bits_that_hold_them(dtype: str, tmp_path: Path) -> None:
    weight = WEIGHT.astype("float16").astype("float32")
    if dtype == "bfloat16":
        weight = (WEIGHT.view("uint32") & np.uint32(0xFFFF0000)).view("float32")
    made, path = vmkit.compile(network(weight), target="llvm"), tmp_path / "model.vmx"
    made.export(path)
    manifest, members = read_archive(path)
    assert (manifest["format_version"], len(members["weights.bin"])) == (4, weight.nbytes // 2)
    loaded = vmkit.load(path)
    assert [each.weight.dtype_name for each in later(loaded.program)] == [dtype]
    assert later(loaded.program) == later(made.program)
    (same,) = later(vmkit.compile(network(weight + np.float32(1e-7)), target="llvm").program)
    assert same.weight.dtype_name == "float32"
    for each in (made, loaded):
        (result,) = vmkit.VirtualMachine(each).run(X)
        np.testing.assert_allclose(result.numpy(), convolved(X, weight, (1, 1, 1, 1)), rtol=1e-3, atol=1e-4)
    loaded.export(tmp_path / "again.vmx")
    assert (tmp_path / "again.vmx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("stored", "values"), [((2, 16, 1), "float16"), ((4, 16, 1), "bfloat16")])
def test_a_text_says_in_which_bits_a_weight_is_stored(stored: tuple[int, ...], values: str) -> None:
    exact = (np.frombuffer(BLOCK, "uint32") & np.uint32(0xFFFFE000 if values == "float16" else 0xFFFF0000)).view(
        "float32"
    )
    bits = narrowed(exact, values).tobytes()
    said = {**SAID, "stored": stored, "size": len(bits)}
    (half,), (whole,) = (
        with_block(program_of(each), memoryview(block)).constants
        for each, block in ((said, bits), (SAID, exact.tobytes()))
    )
    assert isinstance(half, LaterConstant) and isinstance(whole, LaterConstant)
    assert half.is_half and not whole.is_half and half != whole
    np.testing.assert_array_equal(half.numpy(), whole.numpy())


@pytest.mark.parametrize("stored", [(0, 16, 1), (1, 16, 1), (2, 8, 1), (2, 16, 2), (2, 64, 1), (4, 32, 1)])
def test_a_weight_that_is_stored_in_other_bits_is_refused(stored: tuple[int, ...]) -> None:
    block = memoryview(bytes(576 * 8))
    for size in (576, 576 * 2, 576 * 4, 576 * 8):
        with pytest.raises(ExecutableError):
            with_block(program_of({**SAID, "stored": stored, "size": size}), block)


@pytest.mark.parametrize("is_half", [False, True])
def test_a_weight_that_is_there_in_two_ways_lies_in_a_file_once(is_half: bool, tmp_path: Path) -> None:
    weight = WEIGHT.astype("float16").astype("float32") if is_half else WEIGHT
    path = tmp_path / "model.vmx"
    vmkit.compile(network(weight, is_known=False), target="llvm").export(path)
    manifest, members = read_archive(path)
    assert (manifest["format_version"], len(members["weights.bin"])) == (5, weight.nbytes >> is_half)
    loaded = vmkit.load(path)
    by_tiles, plain = later(loaded.program)
    assert (by_tiles.plan.is_plain, plain.plan.is_plain) == (False, True)
    blocks, elements, inner, block = plain.shape
    expected = weight.reshape(elements, inner, blocks, block).transpose(2, 0, 1, 3)
    np.testing.assert_array_equal(plain.numpy(), expected)
    loaded.export(tmp_path / "again.vmx")
    assert (tmp_path / "again.vmx").read_bytes() == path.read_bytes()
    for height, width in ((1, 1), (2, 3), (16, 16)):
        (result,) = vmkit.VirtualMachine(loaded).run(X[:, :height, :width])
        expected = convolved(X[:, :height, :width], weight, (1, 1, 1, 1))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_what_reads_no_later_weights_refuses_the_file(path: Path, tmp_path: Path) -> None:
    assert read_archive(path)[0]["format_version"] == 3
    x = relay.var("x", shape=(1 << 16,))
    thirds = np.full(1 << 16, 1 / 3, "float32")
    plain = vmkit.compile(relay.Function([x], x + relay.const(thirds)), target="llvm")
    plain.export(tmp_path / "plain.vmx")
    assert read_archive(tmp_path / "plain.vmx")[0]["format_version"] == 2


def test_machines_share_what_was_transformed_and_it_ends_with_them(path: Path) -> None:
    loaded = vmkit.load(path)
    first, *_ = later(loaded.program)
    machines = [vmkit.VirtualMachine(loaded) for _ in range(2)]
    addresses = {np.frombuffer(first.data, "uint8").ctypes.data for _ in range(2)}
    assert len(addresses) == 1
    made = first._memory
    assert made() is not None
    del machines
    gc.collect()
    assert made() is None
    assert_computes(loaded)


def test_a_program_is_taken_apart_with_whole_weights(path: Path) -> None:
    loaded = vmkit.load(path)
    assert_computes(vmkit.Executable.load_exec(*loaded.save()))
    moved = loaded.get_late_bound_consts(1 << 16)
    assert {tensor.shape for tensor in moved.values()} == {each.shape for each in later(vmkit.load(path).program)}
    loaded.load_late_bound_consts_from_map(moved)
    assert_computes(loaded)


def test_what_knows_no_later_weights_has_whole_ones(exe: vmkit.Executable) -> None:
    program = vmkit.bytecode.decode(vmkit.bytecode.blob_of(exe.mod))
    whole = [c.data for c in program.constants if isinstance(c, TensorConstant) and c.nbytes > 1 << 16]
    assert [bytes(data) for data in whole] == [bytes(each.data) for each in later(exe.program)]


def test_a_program_with_later_weights_is_printed_and_kept() -> None:
    snapshots = Snapshots(["FuseTIR"])
    with vmkit.PassContext(instruments=[snapshots]):
        made = vmkit.compile(network(WEIGHT, WEIGHT * 2, WEIGHT), target="llvm")
    assert snapshots.text("FuseTIR").count("conv2d_winograd, (x, metadata") == 3
    assert_computes(pickle.loads(pickle.dumps(made)))
    optimized, _ = vmkit.VMCompiler().optimize(tvm.IRModule({"main": network(WEIGHT, WEIGHT * 2, WEIGHT)}), "llvm")
    assert_computes(vmkit.compile(load_json(save_json(optimized)), target="llvm"))


SAID: dict[str, Any] = {
    "dtype": [2, 32, 1], "device": [1, 0], "place": 0, "size": 2304, "reserved": 0,
    "shape": [1, 36, 8, 8], "weight": [3, 3, 8, 8], "tile": [4, 4],
}  # fmt: skip
BLOCK = memoryview(np.random.default_rng(0).standard_normal(576).astype("float32").tobytes())


def program_of(said: dict[str, Any]) -> Program:
    return Program("", (), (), ("vmkit.later_weight:" + json.dumps(said),), ())


def test_a_text_says_how_a_weight_is_transformed() -> None:
    (constant,) = with_block(program_of(SAID), BLOCK).constants
    assert isinstance(constant, LaterConstant) and constant.shape == (1, 36, 8, 8)
    assert np.isfinite(constant.numpy()).all()
    texts, block = moved_to_block(with_block(program_of(SAID), BLOCK))
    assert (texts, block) == (with_block(program_of(SAID), BLOCK), [])  # too small to be moved


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": [1, 36, 8, 9]},
        {"shape": [1, 16, 8, 8]},
        {"shape": [2, 36, 8, 8]},
        {"shape": [1, 36, 8]},
        {"shape": [1, 36, 8, True]},
        {"shape": [-1, 36, 8, -8]},
        {"weight": [3, 3, 8, 16]},
        {"weight": [3, 3, -8, -8]},
        {"weight": [9, 8, 8]},
        {"weight": [3, 3, 8, 8, 1]},
        {"weight": [3.0, 3, 8, 8]},
        {"weight": [1 << 40, 1 << 40, 8, 8]},
        {"tile": [3, 4]},
        {"tile": [0, 0]},
        {"tile": [4]},
        {"tile": [1 << 70, 4]},
        {"tile": ["4", "4"]},
        {"dtype": [2, 16, 1]},
        {"dtype": [0, 32, 1]},
        {"dtype": [2, 32, 2]},
        {"device": [2, 0]},
        {"place": 64},
        {"place": -64},
        {"size": 2303},
        {"size": 1 << 40},
    ],
    ids=json.dumps,
)
def test_a_transform_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ExecutableError, match=r"transformed for tiles|does not become|is not in the 2304 bytes"):
        with_block(program_of({**SAID, **changes}), BLOCK)


@pytest.mark.parametrize("name", [name for name in SAID if name != "reserved"])
@pytest.mark.parametrize("value", [None, "x", {}, [[1]], 2**70, ...], ids=str)
def test_a_text_that_says_something_else_is_found_out(name: str, value: object) -> None:
    said = {key: each for key, each in {**SAID, name: value}.items() if each is not ...}
    with pytest.raises((ExecutableError, *MALFORMED)):
        with_block(program_of(said), BLOCK)


def altered(path: Path, to: Path, change: Callable[[str], str]) -> Path:
    """Write a file again, rightly sealed, in which the texts of later weights are others."""
    manifest, members = read_archive(path)
    program = vmkit.bytecode.decode(members["code.bin"])
    is_later = [isinstance(c, str) and c.startswith("vmkit.later_weight:") for c in program.constants]
    constants = [change(str(c)) if found else c for c, found in zip(program.constants, is_later, strict=True)]
    code = vmkit.bytecode.encode(replace(program, constants=tuple(constants)))
    kept = {key: value for key, value in manifest.items() if key not in ("format", "members")}
    write_archive(to, kept, {**members, "code.bin": code})
    return to


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"tile": [4, 4]', '"tile": [2, 2]'),
        ('"tile"', '"tiles"'),
        (f'"weight": [3, 3, {CHANNELS}', f'"weight": [3, 1, {3 * CHANNELS}'),
        ("vmkit.later_weight:", "vmkit.weight:"),
        ("vmkit.later_weight:", "vmkit.later_weights:"),
        ('{"dtype"', '["dtype"'),
    ],
)
def test_a_file_with_another_text_is_refused(path: Path, tmp_path: Path, old: str, new: str) -> None:
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    with pytest.raises(ExecutableError):
        vmkit.VirtualMachine(vmkit.load(altered(path, tmp_path / "altered.vmx", change)))


def test_a_weight_that_does_not_fit_its_kernel_is_refused(path: Path, tmp_path: Path) -> None:
    def change(text: str) -> str:
        said = json.loads(text.partition(":")[2])
        said["weight"][2] //= 2
        said["shape"][2] //= 2
        return "vmkit.later_weight:" + json.dumps(said)

    with pytest.raises(ExecutableError):
        vmkit.VirtualMachine(vmkit.load(altered(path, tmp_path / "altered.vmx", change))).run(X)
