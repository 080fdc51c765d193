"""Results in the caller's tensors: written there by the program, and copied only where they must be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.runtime import Tensor

import vmkit
from vmkit import relay
from vmkit._tvm.running import from_dlpack
from vmkit.bytecode.given_outputs import GIVEN_OUTPUT, with_given_outputs
from vmkit.errors import InputError

W = np.random.default_rng(0).random((16, 16), dtype="float32")
X = np.random.default_rng(1).random((3, 16), dtype="float32")


def machine_of(make: Callable[[relay.Expr], relay.Expr], dim: Any = None) -> vmkit.VirtualMachine:
    x = relay.var("x", shape=(relay.Any() if dim is None else dim, 16))
    return vmkit.VirtualMachine(vmkit.compile(relay.Function([x], make(x)), target="llvm"))


def dense(x: relay.Expr) -> relay.Expr:
    return relay.nn.dense(relay.tanh(relay.nn.dense(x, relay.const(W))), relay.const(W))


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Return the tensors that are copied from now on."""
    made: list[Tensor] = []
    copyto = Tensor.copyto

    def counted(self: Tensor, target: Any, *rest: Any) -> Any:
        made.append(self)
        return copyto(self, target, *rest)

    monkeypatch.setattr(Tensor, "copyto", counted)
    return made


def empty_like(values: Any) -> list[Tensor]:
    fields = values if isinstance(values, tuple) else (values,)
    return [tvm.runtime.empty(tuple(each.shape), str(each.dtype)) for each in fields]


def assert_same(targets: list[Tensor], wanted: Any) -> None:
    fields = wanted if isinstance(wanted, tuple) else (wanted,)
    for target, value in zip(targets, fields, strict=True):
        np.testing.assert_array_equal(target.numpy(), value.numpy())


WAYS: dict[str, tuple[Callable[[relay.Expr], relay.Expr], int | tuple[int, int]]] = {
    "one": (lambda x: relay.nn.softmax(dense(x)), 0),
    "two": (lambda x: relay.Tuple([relay.nn.softmax(dense(x)), relay.exp(x)]), 0),
    "a reshape": (lambda x: relay.reshape(relay.exp(x), (-1,)), 0),
    "twice the same": (lambda x: (lambda y: relay.Tuple([y, y]))(relay.exp(x)), 1),
    "a reshape beside what it is of": (
        lambda x: (lambda y: relay.Tuple([y, relay.reshape(y, (-1,))]))(relay.exp(x)),
        (0, 1),  # over unknown sizes the program copies it itself
    ),
    "an input": (lambda x: relay.Tuple([x, relay.exp(x)]), 1),
    "a constant": (lambda x: relay.Tuple([relay.const(W), relay.exp(x)]), 1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("dim", [None, 3], ids=["unknown", "known"])
@pytest.mark.parametrize("way", WAYS)
def test_only_what_the_program_does_not_allocate_is_copied(way: str, dim: int | None, copies: list[Tensor]) -> None:
    make, counts = WAYS[way]
    unknown, known = counts if isinstance(counts, tuple) else (counts, counts)
    machine = machine_of(make, dim)
    wanted = machine.run(X)
    for _ in range(2):
        targets = empty_like(wanted)
        copies.clear()
        machine.invoke_with_outputs("main", {"x": X}, targets)
        assert len(copies) == (unknown if dim is None else known)
        assert_same(targets, wanted)


def test_inputs_that_were_set(copies: list[Tensor]) -> None:
    machine = machine_of(dense)
    wanted = machine.run(X)
    machine.set_input("main", X)
    targets = empty_like(wanted)
    copies.clear()
    machine.invoke_with_outputs("main", None, targets)
    assert not copies
    assert_same(targets, wanted)


def test_a_tensor_that_is_an_input_too_is_written_last(copies: list[Tensor]) -> None:
    machine = machine_of(dense)
    wanted = machine.run(X).numpy()
    both = tvm.runtime.tensor(X)
    machine.invoke_with_outputs("main", {"x": both}, [both])
    assert len(copies) == 1
    np.testing.assert_array_equal(both.numpy(), wanted)
    both = tvm.runtime.tensor(X)
    machine.set_input("main", both)
    machine.invoke_with_outputs("main", None, [both])
    np.testing.assert_array_equal(both.numpy(), wanted)


def test_memory_that_is_not_aligned_is_copied_to(copies: list[Tensor]) -> None:
    machine = machine_of(dense)
    wanted = machine.run(X).numpy()
    for offset in range(0, 64, 4):
        memory = np.zeros(3 * 16 * 4 + 128, "uint8")
        begin = -memory.ctypes.data % 64 + offset
        array = memory[begin : begin + 3 * 16 * 4].view("float32").reshape(3, 16)
        copies.clear()
        machine.invoke_with_outputs("main", {"x": X}, [from_dlpack(array)])
        assert len(copies) == (offset != 0)
        np.testing.assert_array_equal(array, wanted)
        assert not memory[:begin].any() and not memory[begin + array.nbytes :].any()


def test_results_without_a_target_are_the_program_s_own() -> None:
    machine = machine_of(lambda x: relay.Tuple([relay.exp(x), relay.tanh(x)]))
    target = tvm.runtime.empty((3, 16), "float32")
    first, second = machine.invoke_into("main", [X], {}, [None, target])
    assert second is target
    np.testing.assert_allclose(first.numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(target.numpy(), np.tanh(X), rtol=1e-5)


@pytest.mark.parametrize(("shape", "dtype"), [((4, 16), "float32"), ((48,), "float32"), ((3, 16), "int32")])
def test_what_does_not_fit_is_refused_after_a_good_call_too(shape: tuple[int, ...], dtype: str) -> None:
    machine = machine_of(dense)
    machine.invoke_with_outputs("main", {"x": X}, [tvm.runtime.empty((3, 16), "float32")])
    with pytest.raises(InputError, match=r"(?i)internal and external output tensor"):
        machine.invoke_with_outputs("main", {"x": X}, [tvm.runtime.empty(shape, dtype)])
    with pytest.raises(InputError, match="x: dtype float64"):
        machine.invoke_with_outputs("main", {"x": X.astype("float64")}, [tvm.runtime.empty((3, 16), "float32")])
    with pytest.raises(InputError, match="Number of outside output tensors"):
        machine.invoke_with_outputs("main", {"x": X}, [])
    with pytest.raises(InputError, match=r"output 0 is given a ndarray, expected a Tensor, as tvm.runtime.empty"):
        machine.invoke_with_outputs("main", {"x": X}, [np.empty((3, 16), "float32")])


def test_what_is_no_tensor_is_not_written_into_one() -> None:
    text = """#[version = "0.0.5"]
    type Some { Some(float32) }
    def @main(%x: float32) { (Some(%x), %x + 1f) }"""
    machine = vmkit.VirtualMachine(vmkit.compile(relay.fromtext(text), "llvm"))
    given = tvm.runtime.empty((), "float32")
    with pytest.raises(InputError, match="output 0 is no tensor, so nothing can be given that it is written into"):
        machine.invoke_with_outputs("main", {"x": np.float32(2)}, [given, given])
    machine.invoke_with_outputs("main", {"x": np.float32(2)}, [None, given])
    assert given.numpy() == 3


def test_results_of_branches_and_recursion_are_right(copies: list[Tensor]) -> None:
    program = """#[version = "0.0.5"]
    def @main(%n: int32, %x: Tensor[(?, 16), float32]) -> Tensor[(?, 16), float32] {
      if (%n == 0) { exp(%x) } else { @main(%n - 1, tanh(%x)) }
    }
    """
    exe = vmkit.compile(relay.parse(program), target="llvm")
    machine = vmkit.VirtualMachine(exe)
    assert with_given_outputs(exe.program, "main") is None
    for n in range(3):
        targets = empty_like(machine.run(n, X))
        machine.invoke_with_outputs("main", {"n": n, "x": X}, targets)
        assert_same(targets, machine.run(n, X))


def test_a_result_after_a_branch_is_written_without_a_copy(copies: list[Tensor]) -> None:
    c = relay.var("c", "bool")
    x = relay.var("x", shape=(relay.Any(), 16))
    chosen = relay.If(c, relay.nn.dense(x, relay.const(W)), relay.nn.softmax(x))
    exe = vmkit.compile(relay.Function([c, x], relay.nn.dense(chosen, relay.const(W))), target="llvm")
    machine = vmkit.VirtualMachine(exe)
    for flag in (True, False):
        targets = empty_like(machine.run(flag, X))
        copies.clear()
        machine.invoke_with_outputs("main", {"c": np.array(flag), "x": X}, targets)
        assert not copies
        assert_same(targets, machine.run(flag, X))


def test_the_program_asks_in_place_of_allocating() -> None:
    program = machine_of(dense).executable.program
    made = with_given_outputs(program, "main")
    assert made is not None
    made.validate()
    assert GIVEN_OUTPUT in [function.name for function in made.functions]
    assert len(made.code(made.function("main"))) == len(program.code(program.function("main"))) - 1


def test_threads_have_their_own_targets() -> None:
    machine = machine_of(dense)
    inputs = [X * n for n in range(1, 5)]
    wanted = [machine.run(x).numpy() for x in inputs]
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(50):
            target = tvm.runtime.empty((3, 16), "float32")
            machine.invoke_with_outputs("main", {"x": inputs[n]}, [target])
            if not np.array_equal(target.numpy(), wanted[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
