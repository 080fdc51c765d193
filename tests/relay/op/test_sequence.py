"""Sequences and optional values in Relay: their types, as text and JSON too, and a program that is text."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi

import vmkit
from vmkit import relay
from vmkit.errors import TypeCheckError
from vmkit.relay.ir import type_text
from vmkit.relay.ir.type_solver import TypeSolver
from vmkit.relay.op import build
from vmkit.relay.transform import infer_module

TYPES = [
    "seq(Tensor[(?, 3), float32])",
    "seq(int64)",
    "opt(seq(Tensor[(n, 2), bool]))",
    "(seq(Tensor[?, float16]), opt(Tensor[_, int8]))",
    "seq(map(Tensor[(?), string], Tensor[(?), float32]))",
    "Tensor[(4) or (?, 4) or (1, 2, n), float32]",
    "seq(Tensor[() or (2), int64])",
    "Tensor[or (2, n), int64]",
]


def with_param(ty: str) -> tvm.IRModule:
    return infer_module(relay.parse(f'#[version = "0.0.5"]\ndef @main(%x: {ty}) {{ %x }}'))


@pytest.mark.parametrize("ty", TYPES)
def test_a_type_is_printed_and_read_back(ty: str) -> None:
    module = with_param(ty)
    assert type_text(module["main"].params[0].checked_type) == ty
    for again in (relay.parse(relay.astext(module)), relay.json.load_json(relay.json.save_json(module))):
        assert tvm_ffi.structural_equal(infer_module(again), module)


@pytest.mark.parametrize(
    ("a", "b", "joined"),
    [
        ("seq(Tensor[(2, 3), float32])", "seq(Tensor[(4, 3), float32])", "seq(Tensor[(?, 3), float32])"),
        ("seq(Tensor[(2), float32])", "seq(Tensor[(2, 3), float32])", "seq(Tensor[(2) or (2, 3), float32])"),
        ("seq(Tensor[_, float32])", "seq(Tensor[(2), float32])", "seq(Tensor[(2), float32])"),
        ("seq(Tensor[_, float32])", "seq(Tensor[?, float32])", "seq(Tensor[?, float32])"),
        ("seq(Tensor[(2) or (2, 3), int8])", "seq(Tensor[?, int8])", "seq(Tensor[?, int8])"),
        ("seq(Tensor[(2) or (2, 3), int8])", "seq(Tensor[(4, 3), int8])", "seq(Tensor[(2) or (?, 3), int8])"),
        ("Tensor[(2) or (2, 3), int8]", "Tensor[() or (4), int8]", "Tensor[() or (?) or (2, 3), int8]"),
        ("Tensor[(2) or (2, 3), int8]", "Tensor[() or (4), int32]", None),
        ("opt(Tensor[_, float32])", "opt(float32)", "opt(float32)"),
        ("seq(float32)", "seq(int32)", None),
        ("seq(float32)", "opt(float32)", None),
        ("seq(Tensor[_, float32])", "seq(int32)", None),
    ],
)
def test_the_type_that_holds_two_sequences(a: str, b: str, joined: str | None) -> None:
    first, second = (with_param(t)["main"].params[0].checked_type for t in (a, b))
    for x, y in ((first, second), (second, first)):
        if joined is None:
            with pytest.raises(TypeCheckError, match="does not agree"):
                TypeSolver().unify(x, y, join=True)
        else:
            assert str(TypeSolver().unify(x, y, join=True)) == joined


PROGRAM = """#[version = "0.0.5"]
def @main(%xs: seq(Tensor[(?), float32]), %i: int64) {
  %0 = sequence.at(%xs, %i);
  %1 = add(%0, %0);
  let %ys = sequence.insert(%xs, %1, %i);
  if (less(sequence.length(%ys), 3i64)) { (%ys, optional.some(%1)) } else { (%xs, optional.some(%0)) }
}
"""


def test_a_program_runs_again_from_what_it_was_exported_to(tmp_path: object) -> None:
    executable = vmkit.compile(relay.parse(PROGRAM))
    assert str(executable.signature) == "main(xs: list[float32[?]], i: int64) -> (list[float32[?]], float32[?] | None)"
    path = f"{tmp_path}/sequence.vmx"
    executable.export(path)
    vm = vmkit.VirtualMachine(vmkit.load(path))
    one, two = np.float32([1]), np.float32([2, 3])
    longer, doubled = vm.run([one], 0)
    assert [v.numpy().tolist() for v in longer] == [[2], [1]]
    assert doubled.numpy().tolist() == [2]
    same, element = vm.run([one, two], -1)
    assert [v.numpy().tolist() for v in same] == [[1], [2, 3]]
    assert element.numpy().tolist() == [2, 3]
    vm.set_input("main", xs=[one, two], i=np.int64(1))
    assert vm.run()[1].numpy().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, s: build("sequence.at", x, relay.const(0)), "sequence must be a sequence"),
        (lambda x, s: build("sequence.at", s, relay.const(0.0)), "index must be one integer"),
        (lambda x, s: build("sequence.append", s, build("cast", x, "int8")), "does not agree"),
        (lambda x, s: build("sequence.at", build("sequence.construct"), relay.const(0)), "the sequence is empty"),
        (lambda x, s: build("optional.get", x), "must be an optional value"),
        (lambda x, s: build("optional.get", build("optional.none", dtype="int8")), "it holds nothing"),
        (lambda x, s: build("buffer.write", x, x, relay.const(0, "int64")), "is no part of"),
        (lambda x, s: build("buffer.write", x, x, relay.const(0)), "must be an int64 scalar"),
        (lambda x, s: build("buffer.create", shape=[relay.Any()], dtype="int8"), "a shape of as many sizes"),
    ],
)
def test_operands_that_do_not_fit_are_refused(call: object, message: str) -> None:
    x = relay.var("x", shape=(2, 3))
    function = relay.Function([x], call(x, build("sequence.construct", x)))  # type: ignore[operator]
    with pytest.raises(TypeCheckError, match=message):
        infer_module(tvm.IRModule({"main": function}))
