"""A program that an RPC server loaded is called as one here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import rpc

import vmkit
from vmkit import relay
from vmkit.errors import ExecutableError, InputError, VMError
from vmkit.runtime import RemoteMachine

A, B = np.arange(6, dtype="float32").reshape(3, 2), np.full((3, 2), 2, "float32")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server on this machine that has loaded ``main(x, y) = (x * y, (x,))``."""
    x, y = relay.var("x", shape=(3, 2)), relay.var("y", shape=(3, 2))
    executable = vmkit.compile(relay.Function([x, y], relay.Tuple([x * y, relay.Tuple([x])])), target="llvm")
    path = tmp_path_factory.mktemp("remote") / "model.so"
    executable.mod.export_library(str(path))
    server = rpc.Server("127.0.0.1")
    connected = rpc.connect(server.host, server.port, session_timeout=60)
    connected.upload(str(path))
    yield connected
    server.terminate()


@pytest.fixture
def machine(session: Any) -> RemoteMachine:
    return RemoteMachine(session.load_module("model.so"), session.cpu())


def test_a_call_sends_arrays_and_leaves_tensors_where_they_are(session: Any, machine: RemoteMachine) -> None:
    there = tvm.runtime.tensor(A, session.cpu())
    for args in ((A, B), (there, B), (tvm.runtime.tensor(A), B)):
        product, (same,) = machine.invoke("main", *args)
        np.testing.assert_array_equal(product.numpy(), A * B)
        np.testing.assert_array_equal(same.numpy(), A)
    np.testing.assert_array_equal(machine.run(y=B, x=there)[0].numpy(), A * B)


def test_inputs_and_outputs_that_stay_there(machine: RemoteMachine) -> None:
    with pytest.raises(InputError, match="Input has not been set for function main: x, y"):
        machine.run()
    machine.set_input("main", A, B)
    machine.set_one_input("main", "y", A)
    machine.set_one_input("main", 0, B)
    machine.invoke_stateful("main")
    product, nested = machine.get_outputs()
    np.testing.assert_array_equal(product.numpy(), A * B)
    np.testing.assert_array_equal(nested[0].numpy(), B)
    assert (machine.get_input_index("y"), machine.get_input_index("z")) == (1, -1)


def test_results_are_copied_into_the_callers_tensors(session: Any, tmp_path: Path, machine: RemoteMachine) -> None:
    x = relay.var("x", shape=(3, 2))
    vmkit.compile(relay.Function([x], x + x), target="llvm").mod.export_library(str(tmp_path / "twice.so"))
    session.upload(str(tmp_path / "twice.so"))
    twice = RemoteMachine(session.load_module("twice.so"), [session.cpu()])
    result = tvm.runtime.tensor(np.zeros((3, 2), "float32"), session.cpu())
    twice.invoke_with_outputs("main", {"x": A}, [result])
    np.testing.assert_array_equal(result.numpy(), A + A)
    with pytest.raises(InputError, match="Element number mismatching"):
        twice.invoke_with_outputs("main", {"x": A}, [tvm.runtime.tensor(np.zeros(2, "float32"), session.cpu())])


@pytest.mark.parametrize("end_to_end", [False, True])
def test_calls_are_timed(session: Any, machine: RemoteMachine, end_to_end: bool) -> None:
    result = machine.benchmark(session.cpu(), A, B, repeat=2, number=3, end_to_end=end_to_end)
    assert len(result.results) == 2
    assert 0 < result.min <= result.max


def test_what_is_wrong_is_said(session: Any, machine: RemoteMachine) -> None:
    for call, error, said in [
        (lambda: machine.run(A), InputError, "y: missing"),
        (lambda: machine.invoke("mian", A, B), InputError, "Cannot find function mian"),
        (
            lambda: machine.run(np.ones(3, "float32"), B),
            VMError,
            "main failed on the other machine: .*ndim 2 but get 1",
        ),
        (lambda: machine.set_one_input("main", "z", A), InputError, "main has no input 'z', expected x, y"),
        (lambda: machine.run("text", object()), InputError, "x: a str.*, which cannot be sent"),
        (lambda: machine.run(A, object()), InputError, "y: an object, which is not a value"),
        (lambda: RemoteMachine(machine.module, tvm.cpu()), InputError, "one of the session's"),
        (lambda: vmkit.VirtualMachine(session.load_module("model.so")), ExecutableError, "RemoteMachine runs it there"),
        (RemoteMachine(session.load_module("model.so"), session.cpu()).get_outputs, VMError, "no outputs yet"),
    ]:
        with pytest.raises(error, match=f"(?s){said}"):
            call()
