"""Loading an executable: signatures are asked for where they are given, and its code goes when it does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import vmkit
from vmkit import relay
from vmkit.bytecode import Arg, ArgKind, Call, Instruction, Program, TensorConstant, decode, encode
from vmkit.bytecode.builtins import ALLOC_SHAPE_HEAP, MAKE_SHAPE
from vmkit.errors import ExecutableError, VMError
from vmkit.executable.archive import CODE, read_archive, write_archive


@pytest.fixture(scope="module")
def executable() -> vmkit.Executable:
    x = relay.var("x", shape=(relay.Any(),))
    return vmkit.compile(relay.Function([x], relay.exp(x)), target="llvm")


def test_an_executable_is_signed_and_its_signature_asked_for(executable: vmkit.Executable, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    executable.export(tmp_path / "signed.vmx", sign=key)
    executable.export(tmp_path / "plain.vmx")
    loaded = vmkit.load(tmp_path / "signed.vmx", trusted_keys=[key.public_key()])
    assert vmkit.VirtualMachine(loaded).run(np.zeros(2, "float32")).numpy().tolist() == [1, 1]
    with pytest.raises(ExecutableError, match="the file is not signed"):
        vmkit.load(tmp_path / "plain.vmx", trusted_keys=[key.public_key()])


def test_libraries_are_unmapped_when_their_executable_goes(executable: vmkit.Executable, tmp_path: Path) -> None:
    executable.export(tmp_path / "model.vmx")
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("only Linux lists the mappings of a process")

    def mapped() -> int:
        return sum("lib0.so" in line for line in maps.read_text().splitlines())

    before, results, counts = mapped(), [], []
    for _ in range(50):
        machine = vmkit.VirtualMachine(vmkit.load(tmp_path / "model.vmx"))
        assert mapped() > before
        results.append(machine.run(np.ones(3, "float32")))
        del machine
        gc.collect()
        counts.append(len(maps.read_text().splitlines()))
    assert mapped() == before
    # An executable has five; of the process's own, some may come in between.
    assert counts[-1] < counts[5] + 20, counts
    # Results stay when the code that computed them is gone.
    for result in results:
        np.testing.assert_allclose(result.numpy(), np.exp(np.ones(3)), rtol=1e-6)


def altered(path: Path, change: Callable[[Program], Program]) -> Path:
    """Write a file again with other bytecode, sealed as it should be."""
    manifest, members = read_archive(path)
    code = encode(change(decode(members[CODE])))
    manifest = {name: value for name, value in manifest.items() if name not in ("format", "format_version", "members")}
    write_archive(path.with_name("altered.vmx"), manifest, {**members, CODE: code})
    return path.with_name("altered.vmx")


def with_shapes(**others: tuple[int, ...]) -> Callable[[Program], Program]:
    """Return what puts other shapes in the places of some among a program's constants."""
    known = {tuple(map(int, old.split("x")[1:])): new for old, new in others.items()}

    def change(program: Program) -> Program:
        assert set(known) <= {each for each in program.constants if isinstance(each, tuple)}
        changed = (known.get(each, each) if isinstance(each, tuple) else each for each in program.constants)
        return replace(program, constants=tuple(changed))

    return change


def with_fewer_integers(program: Program) -> Program:
    """Return a program whose last allocation of integers, that of the workspace, is of one alone."""
    code = list(program.instructions)
    at, old = [(at, c) for at, c in enumerate(code) if _name(program, c) == ALLOC_SHAPE_HEAP][-1]
    assert isinstance(old, Call)
    code[at] = replace(old, args=(old.args[0], Arg(ArgKind.IMMEDIATE, 1)))
    return replace(program, instructions=tuple(code))


def _name(program: Program, instruction: Instruction) -> str:
    return program.names[instruction.function] if isinstance(instruction, Call) else ""


def layers(rows: relay.Any | int) -> vmkit.Executable:
    """Return a program of one kernel group."""
    x = relay.var("x", shape=(rows, 3))
    weight = relay.const(np.ones((4, 3), "float32"))
    return vmkit.compile(relay.Function([x], relay.nn.softmax(relay.nn.dense(relay.tanh(x), weight))), target="llvm")


@pytest.fixture(scope="module")
def two_rows() -> vmkit.Executable:
    return layers(2)


def test_other_shapes_than_kernel_groups_need_are_refused_when_loaded(
    two_rows: vmkit.Executable, tmp_path: Path
) -> None:
    two_rows.export(tmp_path / "model.vmx")
    # Of the result's memory, which the group does not look at.
    for shape in ((1, 4), (2, 4, 1), (-2, 4), (1 << 32, 1 << 32)):
        path = altered(tmp_path / "model.vmx", with_shapes(x2x4=shape))
        with pytest.raises(ExecutableError, match=r"instruction 3: a tensor of|argument 2 of kernel_group"):
            vmkit.load(path)
    # The workspace is looked at in each call, and storage by the VM.
    for change, problem in (
        (with_shapes(x32=(16,)), "storage"),
        (with_fewer_integers, "the workspace has too few bytes"),
    ):
        path = altered(tmp_path / "model.vmx", change)
        machine = vmkit.VirtualMachine(vmkit.load(path), memory_cfg="naive", num_threads=1)
        with pytest.raises(VMError, match=problem):
            machine.run(np.ones((2, 3), "float32"))


def test_other_weights_than_kernel_groups_need_are_refused_when_loaded(
    two_rows: vmkit.Executable, tmp_path: Path
) -> None:
    two_rows.export(tmp_path / "model.vmx")

    def shorter(program: Program) -> Program:
        cut = (
            replace(each, shape=(1, 1, 4), data=each.data[:16]) if isinstance(each, TensorConstant) else each
            for each in program.constants
        )
        return replace(program, constants=tuple(cut))

    with pytest.raises(
        ExecutableError, match=r"a tensor of float32\[1, 1, 4\], expected a tensor of float32\[1, 3, 4\]"
    ):
        vmkit.load(altered(tmp_path / "model.vmx", shorter))
    code, library = two_rows.save()
    with pytest.raises(ExecutableError, match="argument 1 of kernel_group"):
        vmkit.Executable.load_exec(encode(shorter(decode(code))), library)


def with_shape_of_ones(at: int) -> Callable[[Program], Program]:
    """Return what has an instruction make a shape with 1 in the place of what it reads from the heap."""

    def change(program: Program) -> Program:
        code = list(program.instructions)
        old = code[at]
        assert isinstance(old, Call)
        ones = (Arg(ArgKind.IMMEDIATE, 0), Arg(ArgKind.IMMEDIATE, 1))
        code[at] = replace(old, args=(*old.args[:2], *ones, *old.args[4:]))
        return replace(program, instructions=tuple(code))

    return change


def test_kernel_groups_of_unknown_sizes_look_at_what_they_are_given(tmp_path: Path) -> None:
    layers(relay.Any()).export(tmp_path / "model.vmx")
    program = decode(read_archive(tmp_path / "model.vmx")[1][CODE])
    shapes = [at for at, one in enumerate(program.instructions) if _name(program, one) == MAKE_SHAPE]
    assert len(shapes) >= 2  # the result's memory and its shape
    for change in (*map(with_shape_of_ones, shapes), with_fewer_integers):
        path = altered(tmp_path / "model.vmx", change)
        machine = vmkit.VirtualMachine(vmkit.load(path), memory_cfg="naive", num_threads=1)
        with pytest.raises(VMError):
            machine.run(np.ones((5, 3), "float32"))


def test_a_text_in_the_place_of_a_tensor_is_refused(tmp_path: Path) -> None:
    x = relay.var("x", shape=(1 << 16,))
    made = vmkit.compile(relay.Function([x], x + relay.const(np.ones(1 << 16, "float32"))), target="llvm")
    made.export(tmp_path / "model.vmx")

    def change(program: Program) -> Program:
        texts = (c.replace("vmkit.weight:", "vmkit.other:") if isinstance(c, str) else c for c in program.constants)
        return replace(program, constants=tuple(texts))

    path = altered(tmp_path / "model.vmx", change)
    with pytest.raises(ExecutableError, match="of the bytecode is a text in the place of a tensor that is lacking"):
        vmkit.VirtualMachine(vmkit.load(path))
